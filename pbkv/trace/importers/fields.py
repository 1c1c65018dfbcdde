"""Reads what other systems' logs say, leniently in what they leave out, strictly in what is wrong.

A log of another system is not ours to version: fields that are absent or null count as unknown,
fields of a wrong type are an error that names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pbkv.errors import InvalidTrace
from pbkv.invocation import MAX_NAME_CHARS
from pbkv.trace.jsonl import json_lines

_ERROR_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")


def json_objects(path: Path, list_field: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, object) of a file that is JSON lines, one JSON list, or an object with such a list.

    Raises :class:`InvalidTrace`.
    """
    whole = _whole_document(path)
    if isinstance(whole, dict) and isinstance(whole.get(list_field), list):
        whole = whole[list_field]
    if isinstance(whole, list):
        values: Iterator[tuple[str, Any]] = (
            (f"{path} item {index}", value) for index, value in enumerate(whole, start=1)
        )
    elif whole is not None:
        values = iter([(str(path), whole)])
    else:
        values = ((f"{path} line {number}", value) for number, value in json_lines(path))
    for place, value in values:
        if not isinstance(value, dict):
            raise InvalidTrace(f"{place}: must be an object")
        yield place, value


def _whole_document(path: Path) -> Any:
    """The file as one JSON document, None if it is lines of several."""
    try:
        return orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError:
        return None
    except OSError as problem:
        raise InvalidTrace(f"{path}: {problem.strerror}") from None


def at(value: Any, *path: str | int) -> Any:
    """What is found by that path of keys and indices, None where it ends early."""
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def name(*candidates: Any) -> str:
    """The first candidate that is a text with something in it, cut to a name's length."""
    for candidate in candidates:
        if isinstance(candidate, str) and candidate.strip():
            return candidate.strip()[:MAX_NAME_CHARS]
    return ""


def tokens(place: str, field: str, *candidates: Any) -> int | None:
    """The first count that is there. Raises :class:`InvalidTrace` for one that is no count."""
    for candidate in candidates:
        if candidate is None:
            continue
        if isinstance(candidate, str) and candidate.isdecimal():
            # OTLP writes 64-bit integers as text.
            return int(candidate)
        if isinstance(candidate, bool) or not isinstance(candidate, int) or candidate < 0:
            raise InvalidTrace(f"{place}: {field}: must be a count of tokens")
        return candidate
    return None


def seconds(place: str, field: str, value: Any) -> float:
    """Seconds since 1970 of an ISO 8601 text or of a number of seconds. A time without a zone is
    taken for UTC. Raises :class:`InvalidTrace`.
    """
    if value is None:
        raise InvalidTrace(f"{place}: {field}: is missing")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise InvalidTrace(f"{place}: {field}: must be a time in ISO 8601") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def error_name(value: Any) -> str:
    """A name for an error: the text of one may quote what was sent, so only its first word."""
    if not value:
        return ""
    found = _ERROR_NAME.match(value.strip()) if isinstance(value, str) else None
    return found.group() if found else "error"
