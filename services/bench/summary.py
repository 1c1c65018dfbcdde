"""One row of results from one replay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from services.bench.drive import Replay


def summarise(replay: Replay) -> dict[str, Any]:
    """The measured keys of a ``bench engine`` row.

    ``hit_rate`` is device-cached over prompt tokens, as in the paper; ``host_hit_rate`` likewise
    for the host tier. ``ttft_first_p95_s`` is over the first calls of workflows: what a newcomer
    waits. Times are seconds.
    """
    calls = replay.calls
    prompt = sum(call.prompt_tokens for call in calls)
    latency = list(replay.workflow_latency_s.values())
    return {
        "workflows": len(latency),
        "calls": len(calls),
        "prompt_tokens": prompt,
        "hit_rate": sum(call.cached_device_tokens for call in calls) / prompt,
        "host_hit_rate": sum(call.cached_host_tokens for call in calls) / prompt,
        "latency_mean_s": float(np.mean(latency)),
        "latency_p95_s": percentile(latency, 95),
        "ttft_mean_s": float(np.mean([call.ttft_s for call in calls])),
        "ttft_first_p95_s": percentile((call.ttft_s for call in calls if call.step == 0), 95),
    }


def percentile(values: Iterable[float], q: float) -> float:
    """The ``q``-th percentile, interpolated."""
    return float(np.percentile(list(values), q))
