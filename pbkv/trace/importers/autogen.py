"""AutoGen's event log: what ``logging.getLogger(EVENT_LOGGER_NAME)`` writes, one event per line.

An event is a JSON object, alone on its line or after whatever the log's format puts before it; a
time at the start of the line is when the call finished. ``LLMCall`` and ``LLMStreamEnd`` are calls.
Their ``agent_id`` is ``type/key``: in a team the key is that of the team's run and the type ends
with it, so it names the workflow and the rest names the agent. The manager of a selector group chat
calls a model too, and is ``selector``, as in what :mod:`pbkv.clients.autogen` tells the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from pbkv.errors import InvalidTrace
from pbkv.invocation import UNNAMED_AGENT
from pbkv.trace.importers.calls import ForeignCall, records_of
from pbkv.trace.importers.fields import at, name, seconds, tokens
from pbkv.trace.record import InvocationRecord

_CALLS = ("LLMCall", "LLMStreamEnd")
_TIME = re.compile(r"\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?(Z|[+-]\d\d:?\d\d)?")
_DEFAULT_KEY = "default"
_ROLES = {"SelectorGroupChatManager": "selector"}
_LONGEST_CALL_S = 86_400.0
"""A model server whose ``created`` is older than that does not mean the call's start."""


def import_autogen(path: Path, *, tenant: str = "") -> list[InvocationRecord]:
    """The records in an event log. It does not tell when workflows end.

    Raises :class:`InvalidTrace` with line and field.
    """
    calls = [_call(place, prefix, event, path) for place, prefix, event in _events(path)]
    return records_of(calls, {}, tenant=tenant)


def _call(place: str, prefix: str, event: Mapping[str, Any], path: Path) -> ForeignCall:
    agent_type, _, key = name(event.get("agent_id")).partition("/")
    response = event.get("response")
    created_s = at(response, "created")
    finished_at_s = _finished_at_s(place, prefix, event, created_s)
    if not isinstance(created_s, int | float) or not (
        finished_at_s - _LONGEST_CALL_S < created_s <= finished_at_s
    ):
        created_s = finished_at_s
    agent = (agent_type.removesuffix(f"_{key}") if key else agent_type) or UNNAMED_AGENT
    usage = at(response, "usage")
    return ForeignCall(
        # A key of an application's own choice may be the same for every run.
        workflow=key if key and key != _DEFAULT_KEY else path.stem,
        agent=_ROLES.get(agent, agent),
        sent_at_s=float(created_s),
        finished_at_s=finished_at_s,
        request_id=name(at(response, "id")),
        model=name(at(response, "model")),
        # No prompt is empty: 0 stands for what a streaming server did not say.
        prompt_tokens=tokens(place, "prompt_tokens", event.get("prompt_tokens")) or None,
        cached_tokens=tokens(
            place, "cached_tokens", at(usage, "prompt_tokens_details", "cached_tokens")
        ),
        completion_tokens=tokens(
            place,
            "completion_tokens",
            event.get("completion_tokens") if event.get("prompt_tokens") else None,
        ),
        finish_reason=name(
            at(response, "choices", 0, "finish_reason"), at(response, "finish_reason")
        ),
    )


def _finished_at_s(place: str, prefix: str, event: Mapping[str, Any], created_s: Any) -> float:
    if event.get("timestamp") is not None:
        return seconds(place, "timestamp", event["timestamp"])
    found = _TIME.match(prefix)
    if found is not None:
        moment, fraction, zone = found.groups()
        return seconds(place, "time", f"{moment}.{(fraction or '0').ljust(6, '0')}{zone or ''}")
    if isinstance(created_s, int | float):
        return float(created_s)
    raise InvalidTrace(
        f"{place}: no time; give the log a format with %(asctime)s, or log a timestamp"
    )


def _events(path: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(place, what stands before it, event) of every model call."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                start = line.find("{")
                if start < 0:
                    continue
                try:
                    event = orjson.loads(line[start:])
                except orjson.JSONDecodeError:
                    # Other loggers write into the same file.
                    continue
                if isinstance(event, dict) and event.get("type") in _CALLS:
                    yield f"{path} line {number}", line[:start], event
    except OSError as problem:
        raise InvalidTrace(f"{path}: {problem.strerror}") from None
