"""LangSmith runs: an export of ``client.list_runs`` or of the bulk export, as JSON or JSON lines.

A run of type ``llm`` is a call, its trace the workflow. The agent is what the run's metadata names
(``lc_agent_name``, then ``langgraph_node``), else the nearest chain above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pbkv.errors import InvalidTrace
from pbkv.invocation import UNNAMED_AGENT
from pbkv.trace.importers.calls import ForeignCall, records_of
from pbkv.trace.importers.fields import at, error_name, json_objects, name, seconds, tokens
from pbkv.trace.record import InvocationRecord

Run = Mapping[str, Any]


def import_langsmith(path: Path, *, tenant: str = "") -> list[InvocationRecord]:
    """The records in an export. Raises :class:`InvalidTrace` with place and field."""
    runs: dict[str, tuple[str, Run]] = {}
    for place, run in json_objects(path, "runs"):
        run_id = name(run.get("id"))
        if not run_id or not name(run.get("run_type")):
            raise InvalidTrace(f"{place}: a run has an id and a run_type")
        runs[run_id] = (place, run)
    calls = [
        _call(place, run, runs)
        for place, run in runs.values()
        # A run without an end is still going on.
        if run["run_type"] == "llm" and run.get("end_time") is not None
    ]
    ends = {
        _trace_id(run): seconds(place, "end_time", run["end_time"])
        for place, run in runs.values()
        if run.get("parent_run_id") is None and run.get("end_time") is not None
    }
    return records_of(calls, ends, tenant=tenant)


def _call(place: str, run: Run, runs: Mapping[str, tuple[str, Run]]) -> ForeignCall:
    metadata = at(run, "extra", "metadata")
    usage = at(metadata, "usage_metadata") or at(run, "outputs", "usage_metadata") or _usage(run)
    generation = at(run, "outputs", "generations", 0, 0)
    first_token = run.get("first_token_time") or _first_token(run)
    return ForeignCall(
        workflow=_trace_id(run),
        agent=_agent(run, runs),
        application=name(run.get("session_name"), at(metadata, "ls_project")),
        sent_at_s=seconds(place, "start_time", run.get("start_time")),
        finished_at_s=seconds(place, "end_time", run["end_time"]),
        first_token_at_s=None
        if first_token is None
        else seconds(place, "first_token_time", first_token),
        request_id=name(at(generation, "message", "kwargs", "response_metadata", "id")),
        model=name(at(metadata, "ls_model_name"), at(run, "extra", "invocation_params", "model")),
        prompt_tokens=tokens(
            place, "prompt_tokens", run.get("prompt_tokens"), at(usage, "input_tokens")
        ),
        cached_tokens=tokens(
            place,
            "prompt_token_details",
            at(run, "prompt_token_details", "cache_read"),
            at(usage, "input_token_details", "cache_read"),
        ),
        completion_tokens=tokens(
            place, "completion_tokens", run.get("completion_tokens"), at(usage, "output_tokens")
        ),
        finish_reason=name(
            at(generation, "generation_info", "finish_reason"),
            at(generation, "message", "kwargs", "response_metadata", "finish_reason"),
        ),
        error=error_name(run.get("error")),
    )


def _trace_id(run: Run) -> str:
    return name(run.get("trace_id"), run["id"])


def _first_token(run: Run) -> Any:
    """As the SDK logs it, for exports without a field of its own."""
    events = run.get("events")
    times = (
        at(event, "time")
        for event in (events if isinstance(events, list) else ())
        if at(event, "name") == "new_token"
    )
    return next(times, None)


def _usage(run: Run) -> Any:
    return at(run, "outputs", "generations", 0, 0, "message", "kwargs", "usage_metadata")


def _agent(run: Run, runs: Mapping[str, tuple[str, Run]]) -> str:
    metadata = at(run, "extra", "metadata")
    named = name(at(metadata, "lc_agent_name"), at(metadata, "langgraph_node"))
    if named:
        return named
    seen: set[str] = set()
    parent = name(run.get("parent_run_id"))
    while parent in runs and parent not in seen:
        seen.add(parent)
        above = runs[parent][1]
        title = name(above.get("name"))
        if above["run_type"] == "chain" and title and not title.startswith("Runnable"):
            return title
        parent = name(above.get("parent_run_id"))
    return name(run.get("name")) or UNNAMED_AGENT
