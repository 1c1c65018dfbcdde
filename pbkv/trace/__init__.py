"""Traces of what a cluster served: their schema, their files, and workflows rebuilt from them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pbkv.trace.record import SCHEMA_VERSION, InvocationRecord, RecordKind, read_record

if TYPE_CHECKING:
    from pbkv.trace.call import TracedCall
    from pbkv.trace.files import read_traces, write_traces
    from pbkv.trace.workflows import WorkflowTrace, workflows_of

# What needs numpy is imported when it is asked for: a router makes records and nothing else.
_LATER = {
    "TracedCall": "pbkv.trace.call",
    "read_traces": "pbkv.trace.files",
    "write_traces": "pbkv.trace.files",
    "WorkflowTrace": "pbkv.trace.workflows",
    "workflows_of": "pbkv.trace.workflows",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


__all__ = [
    "SCHEMA_VERSION",
    "InvocationRecord",
    "RecordKind",
    "TracedCall",
    "WorkflowTrace",
    "read_record",
    "read_traces",
    "workflows_of",
    "write_traces",
]
