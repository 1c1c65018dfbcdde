"""What one simulated run measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbkv.policy import EvictionReason
from pbkv.sim.engine import SimulatedEngine
from pbkv.sim.request import SimRequest


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Rates are 0 to 1 over prompt tokens, times are simulated seconds.

    ``hit_rate`` is of the device, as in the paper. ``ttft_first_*`` and ``first_wait_max_s`` are of
    the first calls of workflows: what a newcomer waits for its first token, and in the queue.
    ``evicted_tokens`` is by reason.
    """

    workflows: int
    invocations: int
    prompt_tokens: int
    hit_rate: float
    host_hit_rate: float
    latency_mean_s: float
    latency_p95_s: float
    latency_p99_s: float
    ttft_mean_s: float
    ttft_p95_s: float
    ttft_first_p95_s: float
    ttft_first_p99_s: float
    first_wait_max_s: float
    duration_s: float
    retractions: int
    prefetched_tokens: int
    evicted_tokens: dict[str, int]

    def row(self) -> dict[str, Any]:
        """The measured keys of a ``simulate`` row."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Measurements:
    """Collects calls and workflows while they end."""

    prompt_tokens: int = 0
    device_tokens: int = 0
    host_tokens: int = 0
    ttft_s: list[float] = field(default_factory=list)
    ttft_first_s: list[float] = field(default_factory=list)
    first_wait_max_s: float = 0.0
    latency_s: list[float] = field(default_factory=list)

    def call(self, request: SimRequest) -> None:
        self.prompt_tokens += request.prompt_tokens
        self.device_tokens += request.cached_device_tokens
        self.host_tokens += request.cached_host_tokens
        ttft_s = request.first_token_s - request.arrived_s
        self.ttft_s.append(ttft_s)
        if request.invocation.step == 1:
            self.ttft_first_s.append(ttft_s)
            waited_s = request.admitted_s - request.arrived_s
            self.first_wait_max_s = max(self.first_wait_max_s, waited_s)

    def result(self, duration_s: float, engines: Sequence[SimulatedEngine]) -> SimulationResult:
        """The result of a run that took ``duration_s`` on these engines."""
        latency, first = self.latency_s, self.ttft_first_s
        return SimulationResult(
            workflows=len(latency),
            invocations=len(self.ttft_s),
            prompt_tokens=self.prompt_tokens,
            hit_rate=self.device_tokens / max(1, self.prompt_tokens),
            host_hit_rate=self.host_tokens / max(1, self.prompt_tokens),
            latency_mean_s=_mean(latency),
            latency_p95_s=_percentile(latency, 95),
            latency_p99_s=_percentile(latency, 99),
            ttft_mean_s=_mean(self.ttft_s),
            ttft_p95_s=_percentile(self.ttft_s, 95),
            ttft_first_p95_s=_percentile(first, 95),
            ttft_first_p99_s=_percentile(first, 99),
            first_wait_max_s=self.first_wait_max_s,
            duration_s=duration_s,
            retractions=sum(engine.retractions for engine in engines),
            prefetched_tokens=sum(engine.prefetched_tokens for engine in engines),
            evicted_tokens={
                str(reason): sum(engine.tree.evicted[reason] for engine in engines)
                for reason in EvictionReason
            },
        )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def _percentile(values: Iterable[float], q: float) -> float:
    values = list(values)
    return float(np.percentile(values, q)) if values else 0.0
