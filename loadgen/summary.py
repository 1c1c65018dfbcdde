"""Numbers out of records: one row for all calls and one per agent, transition and error kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from loadgen.records import CallRecord, RunRecords, WorkflowState

ALL = "all"


def rows(records: RunRecords) -> list[dict[str, Any]]:
    """``all`` first, then the agents by name. Of the measured part of ``records``.

    ``latency_*`` of ``all`` are of whole workflows that finished, as in the paper's Table 1, of an
    agent those of its calls. ``hit_rate`` is cached over prompt tokens of the answers that tell
    both; None where none does.
    """
    measured = records.measured()
    by_agent: dict[str, list[CallRecord]] = {}
    for call in measured.calls:
        by_agent.setdefault(call.agent, []).append(call)
    workflows = measured.workflows
    finished = [w.latency_s for w in workflows if w.state is WorkflowState.FINISHED]
    states = Counter(str(workflow.state) for workflow in workflows)
    total = {
        **_row(ALL, measured.calls, finished),
        "workflows": len(workflows),
        "workflows_finished": states["finished"],
        "workflows_failed": states["failed"],
        "workflows_cut": states["cut"],
        "duration_s": measured.duration_s,
        "calls_per_s": len(measured.calls) / max(measured.duration_s, 1e-9),
        "output_tokens_per_s": _total(measured.calls, "output_tokens")
        / max(measured.duration_s, 1e-9),
        "errors_by_kind": errors_by_kind(measured.calls),
        "error_examples": error_examples(measured.calls),
        "without_usage": sum(c.error is None and c.prompt_tokens is None for c in measured.calls),
        "without_cached_tokens": sum(
            c.error is None and c.prompt_tokens is not None and c.cached_tokens is None
            for c in measured.calls
        ),
    }
    agents = [
        _row(agent, calls, [call.latency_s for call in calls if call.error is None])
        for agent, calls in sorted(by_agent.items())
    ]
    return [total, *agents]


def transitions(records: RunRecords) -> list[dict[str, Any]]:
    """Per pair of one agent and the next of the same workflow: the calls of the second."""
    pairs: dict[tuple[str, str], list[CallRecord]] = {}
    before: dict[str, str] = {}
    for call in sorted(records.measured().calls, key=lambda call: (call.workflow_id, call.step)):
        if call.step > 1 and call.workflow_id in before:
            pairs.setdefault((before[call.workflow_id], call.agent), []).append(call)
        before[call.workflow_id] = call.agent
    return [
        {"from": first, "to": second, **_measures(calls)}
        for (first, second), calls in sorted(pairs.items())
    ]


def errors_by_kind(calls: Iterable[CallRecord]) -> dict[str, int]:
    """How many calls failed, most frequent kind first."""
    kinds = Counter(str(call.error) for call in calls if call.error is not None)
    return dict(kinds.most_common())


def error_examples(calls: Iterable[CallRecord]) -> dict[str, str]:
    """What the endpoint or the system said of the first error of each kind, where it said so."""
    said: dict[str, str] = {}
    for call in calls:
        if call.error is not None and call.detail:
            said.setdefault(str(call.error), call.detail)
    return said


def hit_rate(calls: Iterable[CallRecord]) -> float | None:
    """Cached over prompt tokens, of the calls that tell both."""
    prompt = cached = 0
    for call in calls:
        if call.prompt_tokens is not None and call.cached_tokens is not None:
            prompt += call.prompt_tokens
            cached += call.cached_tokens
    return cached / prompt if prompt else None


def ttfts(calls: Iterable[CallRecord]) -> list[float]:
    """Times to the first token of the calls that were answered to their end."""
    return [c.ttft_s for c in calls if c.error is None and c.ttft_s is not None]


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def quantile(values: Sequence[float], q: float) -> float | None:
    return float(np.quantile(values, q)) if values else None


def _row(name: str, calls: Sequence[CallRecord], latencies: Sequence[float]) -> dict[str, Any]:
    return {
        "agent": name,
        **_measures(calls),
        "latency_mean_s": mean(latencies),
        "latency_p95_s": quantile(latencies, 0.95),
    }


def _measures(calls: Sequence[CallRecord]) -> dict[str, Any]:
    ttft = ttfts(calls)
    return {
        "calls": len(calls),
        "errors": sum(call.error is not None for call in calls),
        "retries": sum(call.retries for call in calls),
        "hit_rate": hit_rate(calls),
        "ttft_mean_s": mean(ttft),
        "ttft_p95_s": quantile(ttft, 0.95),
        "lag_p99_s": quantile([call.lag_s for call in calls], 0.99),
        "prompt_tokens": _total(calls, "prompt_tokens"),
        "cached_tokens": _total(calls, "cached_tokens"),
        "output_tokens": _total(calls, "output_tokens"),
    }


def _total(calls: Iterable[CallRecord], name: str) -> int:
    return sum(getattr(call, name) or 0 for call in calls)
