"""One row of results from one replay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from services.bench.counters import EngineCounters
from services.bench.drive import Replay


def summarise(replay: Replay) -> dict[str, Any]:
    """The measured keys of a ``bench engine`` row.

    ``hit_rate`` is device-cached over prompt tokens, as in the paper; ``host_hit_rate`` likewise
    for the host tier. ``latency_...`` is of whole workflows. ``ttft_first_...`` is over the first
    calls of workflows, what a newcomer waits, and ``first_wait_max_s`` is the longest of them.
    Times are seconds.
    """
    calls = replay.calls
    prompt = sum(call.prompt_tokens for call in calls)
    latency = list(replay.workflow_latency_s.values())
    first = [call.ttft_s for call in calls if call.step == 0]
    return {
        "workflows": len(latency),
        "calls": len(calls),
        "prompt_tokens": prompt,
        "hit_rate": sum(call.cached_device_tokens for call in calls) / prompt,
        "host_hit_rate": sum(call.cached_host_tokens for call in calls) / prompt,
        "duration_s": replay.duration_s,
        "latency_mean_s": float(np.mean(latency)),
        "latency_p50_s": percentile(latency, 50),
        "latency_p95_s": percentile(latency, 95),
        "ttft_mean_s": float(np.mean([call.ttft_s for call in calls])),
        "ttft_first_p95_s": percentile(first, 95),
        "ttft_first_p99_s": percentile(first, 99),
        "first_wait_max_s": max(first),
    }


def count_tokens(counted: EngineCounters) -> dict[str, Any]:
    """The keys of a row that the engine counted itself."""
    return {
        "evicted_tokens": counted.evicted_by_reason or {"total": counted.evicted_device},
        "evicted_device_tokens": counted.evicted_device,
        "prefetched_tokens": counted.prefetched,
        "prefetch_used_tokens": counted.prefetch_used,
    }


def percentile(values: Iterable[float], q: float) -> float:
    """The ``q``-th percentile, interpolated."""
    return float(np.percentile(list(values), q))
