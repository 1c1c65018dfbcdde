"""CrewAI's events as JSON lines: what a listener on its event bus gets from ``event.to_json()``.

``llm_call_started`` with ``llm_call_completed`` or ``llm_call_failed`` of the same ``call_id`` is a
call, ``agent_role`` its agent. A workflow is one kickoff of a crew: the ``crew_kickoff_started``
above the call by ``parent_event_id``, else the one that began last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pbkv.errors import InvalidTrace
from pbkv.invocation import UNNAMED_AGENT
from pbkv.trace.importers.calls import ForeignCall, records_of
from pbkv.trace.importers.fields import at, error_name, json_objects, name, seconds, tokens
from pbkv.trace.record import InvocationRecord

Event = Mapping[str, Any]

_KICKOFF = "crew_kickoff_started"
_KICKOFF_ENDS = ("crew_kickoff_completed", "crew_kickoff_failed")
_UNNAMED = "crewai"
_CALL_ENDS = ("llm_call_completed", "llm_call_failed")


@dataclass(slots=True)
class _Log:
    """What was read so far."""

    by_id: dict[str, Event] = field(default_factory=dict)
    started: dict[str, tuple[str, Event]] = field(default_factory=dict)
    kickoff: Event | None = None
    calls: list[ForeignCall] = field(default_factory=list)
    ends: dict[str, float] = field(default_factory=dict)


def import_crewai(path: Path, *, tenant: str = "") -> list[InvocationRecord]:
    """The records in a log of events. Raises :class:`InvalidTrace` with place and field."""
    log = _Log()
    for place, wrapped in json_objects(path, "events"):
        # The trace batches of CrewAI wrap an event in one of their own.
        inner = wrapped.get("event_data")
        event = {**wrapped, **inner} if isinstance(inner, dict) else wrapped
        _take(log, place, event)
    return records_of(log.calls, log.ends, tenant=tenant)


def _take(log: _Log, place: str, event: Event) -> None:
    kind = event.get("type")
    if not isinstance(kind, str):
        raise InvalidTrace(f"{place}: type: is missing")
    event_id = name(event.get("event_id"))
    if event_id:
        log.by_id[event_id] = event
    if kind == _KICKOFF:
        log.kickoff = event
    elif kind in _KICKOFF_ENDS:
        began = log.by_id.get(name(event.get("started_event_id"))) or _kickoff(log, event)
        if began is not None:
            log.ends[_workflow(began)] = seconds(place, "timestamp", event.get("timestamp"))
    elif kind == "llm_call_started":
        log.started[name(event.get("call_id"))] = (place, event)
    elif kind in _CALL_ENDS:
        log.calls.append(_call(log, place, event))


def _call(log: _Log, place: str, event: Event) -> ForeignCall:
    call_id = name(event.get("call_id"))
    started_at, started = log.started.pop(call_id, (place, event))
    kickoff = _kickoff(log, started)
    usage = event.get("usage")
    return ForeignCall(
        workflow=_workflow(kickoff) if kickoff is not None else _UNNAMED,
        agent=name(event.get("agent_role"), started.get("agent_role")) or UNNAMED_AGENT,
        application=name(at(kickoff, "crew_name")),
        sent_at_s=seconds(started_at, "timestamp", started.get("timestamp")),
        finished_at_s=seconds(place, "timestamp", event.get("timestamp")),
        request_id=name(event.get("response_id")),
        model=name(event.get("model"), started.get("model")),
        prompt_tokens=tokens(place, "usage", at(usage, "prompt_tokens"), at(usage, "input_tokens")),
        cached_tokens=tokens(
            place,
            "usage",
            at(usage, "cached_prompt_tokens"),
            at(usage, "prompt_tokens_details", "cached_tokens"),
        ),
        completion_tokens=tokens(
            place, "usage", at(usage, "completion_tokens"), at(usage, "output_tokens")
        ),
        finish_reason=name(event.get("finish_reason")),
        error=error_name(event.get("error")),
    )


def _kickoff(log: _Log, event: Event) -> Event | None:
    seen: set[str] = set()
    above: Event | None = event
    while above is not None:
        if above.get("type") == _KICKOFF:
            return above
        parent = name(above.get("parent_event_id"))
        if not parent or parent in seen:
            break
        seen.add(parent)
        above = log.by_id.get(parent)
    return log.kickoff


def _workflow(kickoff: Event) -> str:
    return name(kickoff.get("event_id"), kickoff.get("source_fingerprint")) or str(
        kickoff.get("timestamp")
    )
