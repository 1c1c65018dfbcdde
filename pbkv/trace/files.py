"""Trace files of either form, told apart by their suffix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pbkv.errors import InvalidTrace
from pbkv.trace.call import TracedCall
from pbkv.trace.jsonl import read_jsonl, write_jsonl
from pbkv.trace.parquet import read_parquet, write_parquet

JSONL_SUFFIX = ".jsonl"
PARQUET_SUFFIX = ".parquet"


def read_traces(path: Path) -> Iterator[TracedCall]:
    """The calls in a trace file, streamed. Raises :class:`InvalidTrace`, some while it is read."""
    if is_parquet(path):
        return read_parquet(path)
    return (TracedCall(record) for record in read_jsonl(path))


def write_traces(path: Path, calls: Iterable[TracedCall]) -> int:
    """Write a trace file; how many records. JSON lines leave the hidden states out.

    Raises :class:`InvalidTrace` for an unknown suffix, and OSError.
    """
    if is_parquet(path):
        return write_parquet(path, calls)
    return write_jsonl(path, (call.record for call in calls))


def is_parquet(path: Path) -> bool:
    """Whether the suffix says Parquet. Raises :class:`InvalidTrace` if it says neither."""
    if path.suffix not in (JSONL_SUFFIX, PARQUET_SUFFIX):
        raise InvalidTrace(
            f"{path.name} must end with {JSONL_SUFFIX} or {PARQUET_SUFFIX}, to tell its form"
        )
    return path.suffix == PARQUET_SUFFIX
