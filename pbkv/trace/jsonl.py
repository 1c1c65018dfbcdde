"""Traces as JSON lines: one record per line, for people and their tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import orjson

from pbkv.errors import InvalidTrace
from pbkv.trace.record import InvocationRecord, read_record
from pbkv.trace.whole_file import whole_file


def write_jsonl(path: Path, records: Iterable[InvocationRecord]) -> int:
    """Write ``records`` one by one; how many there were. Raises OSError.

    The file appears whole or not at all.
    """
    count = 0
    with whole_file(path) as partial, partial.open("wb") as file:
        for record in records:
            write_line(file, record)
            count += 1
    return count


def write_line(file: IO[bytes], record: InvocationRecord) -> None:
    """Append one record to an open file."""
    file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))


def read_jsonl(path: Path) -> Iterator[InvocationRecord]:
    """The records of a file, line by line; blank lines are passed over.

    Raises :class:`InvalidTrace` with file, line and field.
    """
    for line_number, value in json_lines(path):
        try:
            yield read_record(value)
        except InvalidTrace as problem:
            raise InvalidTrace(f"{path} line {line_number}: {problem}") from None


def json_lines(path: Path) -> Iterator[tuple[int, object]]:
    """(line number from 1, value) of every line that is not blank. Raises :class:`InvalidTrace`."""
    try:
        with path.open("rb") as file:
            for line_number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    yield line_number, orjson.loads(line)
                except orjson.JSONDecodeError as problem:
                    raise InvalidTrace(
                        f"{path} line {line_number} is not JSON: {problem.msg[:80]}"
                    ) from None
    except OSError as problem:
        raise InvalidTrace(f"{path}: {problem.strerror}") from None
