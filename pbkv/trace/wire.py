"""Records in the Redis stream ``pbkv:traces``: one entry each."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from pbkv.errors import InvalidTrace
from pbkv.trace.record import InvocationRecord, read_record

_FIELD = "record"


def to_fields(record: InvocationRecord) -> dict[str, bytes]:
    """Fields of the stream entry. Raises ValueError for text that is no Unicode."""
    # The dataclass itself: making a dict of it first takes many times as long.
    return {_FIELD: orjson.dumps(record)}


def from_fields(fields: Mapping[str, str]) -> InvocationRecord:
    """Read a stream entry. Raises :class:`InvalidTrace` with a one-line reason."""
    text = fields.get(_FIELD)
    if text is None:
        raise InvalidTrace(f"an entry of the trace stream has no field {_FIELD}")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidTrace("an entry of the trace stream is not JSON") from None
    return read_record(value)
