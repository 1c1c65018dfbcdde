"""Traces as Parquet: the same records with the hidden state of each call beside them.

pyarrow is imported when a Parquet file is touched: a router and a reader of JSON lines do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pbkv.errors import InvalidTrace, TraceUnavailable
from pbkv.hidden_source import POST_NORM
from pbkv.trace.call import TracedCall
from pbkv.trace.record import FIELD_NAMES, SCHEMA_VERSION, InvocationRecord, read_record
from pbkv.trace.whole_file import whole_file

HIDDEN_STATE = "hidden_state"
ROWS_PER_GROUP = 1_000
_VERSION_KEY = b"pbkv.trace.schema"
SOURCE_KEY = b"pbkv.trace.hidden_source"


def pyarrow() -> ModuleType:
    """pyarrow with its Parquet part. Raises :class:`TraceUnavailable` where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise TraceUnavailable("Parquet needs pyarrow: pip install pyarrow") from None
    module: ModuleType = pyarrow
    return module


def arrow_schema() -> Any:
    """The columns: those of the record, and ``hidden_state``."""
    pa = pyarrow()
    text, count, tokens, seconds = pa.string(), pa.int64(), pa.int32(), pa.float64()
    kinds = {
        "seq": count,
        "step": count,
        "schema": count,
        "sent_at_s": seconds,
        "finished_at_s": seconds,
        "first_token_at_s": seconds,
        "prompt_tokens": tokens,
        "cached_tokens": tokens,
        "completion_tokens": tokens,
        "end": pa.bool_(),
    }
    nullable = {name for name, kind in InvocationRecord.__annotations__.items() if "None" in kind}
    columns = [
        pa.field(name, kinds.get(name, text), nullable=name in nullable) for name in FIELD_NAMES
    ]
    columns.append(pa.field(HIDDEN_STATE, pa.list_(pa.float32()), nullable=True))
    return pa.schema(columns, metadata={_VERSION_KEY: str(SCHEMA_VERSION).encode()})


def write_parquet(path: Path, calls: Iterable[TracedCall]) -> int:
    """Write ``calls`` in row groups; how many there were. Raises OSError.

    The file appears whole or not at all, and holds hidden states of one source: of two, say of two
    layers, it raises :class:`InvalidTrace`.
    """
    pa = pyarrow()
    schema = arrow_schema()
    rows = iter(calls)
    count = 0
    source = ""
    with (
        whole_file(path) as partial,
        pa.parquet.ParquetWriter(partial, schema, compression="zstd") as writer,
    ):
        while group := list(islice(rows, ROWS_PER_GROUP)):
            writer.write_table(pa.Table.from_pylist([_row(call) for call in group], schema))
            count += len(group)
            source = _one_source(source, group)
        writer.add_key_value_metadata({SOURCE_KEY: (source or POST_NORM).encode()})
    return count


def read_source(file: Any) -> str:
    """Which state of the model the hidden states of an open Parquet file are."""
    metadata: dict[bytes, bytes] = file.metadata.metadata or {}
    return metadata.get(SOURCE_KEY, POST_NORM.encode()).decode(errors="replace")[:40]


def _one_source(source: str, calls: Iterable[TracedCall]) -> str:
    """``source``, or that of the states in ``calls``. Raises :class:`InvalidTrace` for two."""
    for call in calls:
        if call.hidden_state is None:
            continue
        if source and call.hidden_source != source:
            raise InvalidTrace(
                f"hidden states of two sources, {source} and {call.hidden_source}: "
                f"they do not go into one file"
            )
        source = call.hidden_source
    return source


def read_parquet(path: Path) -> Iterator[TracedCall]:
    """The calls of a file, a row group at a time.

    Raises :class:`InvalidTrace` with file, row and field.
    """
    pa = pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow)
            source = read_source(file)
            row = 0
            for batch in file.iter_batches(batch_size=ROWS_PER_GROUP):
                for call in _calls(batch):
                    row += 1
                    yield _checked(call, source, f"{path} row {row}")
    except OSError as problem:
        raise InvalidTrace(f"{path}: {problem.strerror or 'cannot be read'}") from None
    except pa.ArrowException:
        raise InvalidTrace(f"{path} is not a Parquet file, or damaged") from None


def _row(call: TracedCall) -> dict[str, Any]:
    return {**call.record.to_dict(), HIDDEN_STATE: call.hidden_state}


def _calls(batch: Any) -> Iterator[dict[str, Any]]:
    states = batch.column(HIDDEN_STATE)
    for index, values in enumerate(batch.drop_columns([HIDDEN_STATE]).to_pylist()):
        state = states[index]
        values[HIDDEN_STATE] = (
            state.values.to_numpy(zero_copy_only=False) if state.is_valid else None
        )
        yield values


def _checked(values: dict[str, Any], source: str, where: str) -> TracedCall:
    state = values.pop(HIDDEN_STATE)
    try:
        record = read_record(values)
    except InvalidTrace as problem:
        raise InvalidTrace(f"{where}: {problem}") from None
    if state is not None and not np.isfinite(state).all():
        raise InvalidTrace(f"{where}: {HIDDEN_STATE}: not every number is finite")
    if state is None:
        return TracedCall(record)
    return TracedCall(record, np.array(state, dtype=np.float32), source)


def _check_columns(path: Path, found: Any) -> None:
    expected = arrow_schema()
    version = (found.metadata or {}).get(_VERSION_KEY, b"").decode(errors="replace")[:20]
    if version and version != str(SCHEMA_VERSION):
        raise InvalidTrace(f"{path} has schema {version}; this version reads {SCHEMA_VERSION}")
    for field in expected:
        index = found.get_field_index(field.name)
        if index < 0:
            raise InvalidTrace(f"{path} has no column {field.name}")
        if found.field(index).type != field.type:
            raise InvalidTrace(
                f"{path} column {field.name} is {found.field(index).type}, not {field.type}"
            )
    unknown = sorted(set(found.names) - set(expected.names))
    if unknown:
        raise InvalidTrace(f"{path} has an unknown column {unknown[0][:40]}")
