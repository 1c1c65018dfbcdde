"""One finished call of one agent, or the end of a workflow: the record that traces are made of.

The same record is a line of JSONL for people, a row of Parquet for training and an entry of the
Redis stream. Its fields are explained in ``docs/traces.md``, which a test holds against this class.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, Strict, StrictBool, TypeAdapter, ValidationError

from pbkv.errors import InvalidTrace
from pbkv.invocation import MAX_NAME_CHARS

SCHEMA_VERSION = 1
"""Written into every record; a reader refuses any other."""

# Strict field by field: a dataclass that is strict as a whole takes only its own instances.
Name = Annotated[str, Strict(), Field(max_length=MAX_NAME_CHARS)]
Count = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
Tokens = Annotated[int, Strict(), Field(ge=0, lt=2**31)]
Seconds = Annotated[float, Strict(), Field(allow_inf_nan=False)]


class RecordKind(StrEnum):
    """What a record tells."""

    CALL = "call"
    END = "end"
    """The workflow ended by itself, not with a call."""


@dataclass(frozen=True, slots=True)
class InvocationRecord:
    """One call, from what the router knows of it. Times are wall-clock seconds since 1970.

    ``tenant`` and ``workflow`` together name a workflow, ``seq`` orders its records. Token counts
    are None where nobody counted, ``first_token_at_s`` for an answer that was not streamed.
    ``request_id`` is the engine's name of the request, under which a replica stores the hidden
    state; empty where the engine did not say. ``prompt`` is None unless a setting asks for it.
    An end has the workflow's names, ``seq`` and times, and nothing else.
    """

    # Read with pydantic, made without: the router makes one per request.
    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: RecordKind
    tenant: Name
    workflow: Annotated[Name, Field(min_length=1)]
    seq: Count
    sent_at_s: Seconds
    finished_at_s: Seconds
    agent: Name = ""
    application: Name = ""
    step: Count = 0
    request_id: Name = ""
    model: Name = ""
    replica: Name = ""
    first_token_at_s: Seconds | None = None
    prompt_tokens: Tokens | None = None
    cached_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    finish_reason: Name = ""
    error: Name = ""
    end: StrictBool = False
    prompt: Annotated[str, Strict()] | None = None
    schema: Count = SCHEMA_VERSION

    @property
    def workflow_id(self) -> str:
        """The workflow as engines and event streams call it."""
        return f"{self.tenant}:{self.workflow}" if self.tenant else self.workflow

    def to_dict(self) -> dict[str, Any]:
        """JSON types only; what :func:`read_record` reads back."""
        return {**asdict(self), "kind": self.kind.value}


FIELD_NAMES = tuple(field.name for field in fields(InvocationRecord))

_ADAPTER: TypeAdapter[InvocationRecord] = TypeAdapter(InvocationRecord)


def read_record(value: Any) -> InvocationRecord:
    """The record in ``value``, a dict as :meth:`InvocationRecord.to_dict` makes.

    Raises :class:`InvalidTrace` that names the field at fault and shows none of its content.
    """
    if not isinstance(value, dict):
        raise InvalidTrace("a record must be an object")
    version = value.get("schema")
    if version != SCHEMA_VERSION:
        raise InvalidTrace(
            "schema is missing"
            if version is None
            else f"schema is {str(version)[:20]}; this version reads schema {SCHEMA_VERSION}"
        )
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "record"
        raise InvalidTrace(f"{where}: {first['msg'][:100]}") from None
