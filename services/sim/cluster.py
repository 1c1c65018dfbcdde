"""A cluster as part of a grid: its shape, when workflows come, and what a row says of it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pbkv.errors import SettingsError
from pbkv.sim import Simulation
from pbkv.sim.cluster import ClusterResult, ClusterShape, simulate_cluster
from pbkv.workload import ScriptedWorkflow


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """``arrivals_per_s`` is the rate at which workflows come, as a Poisson process; 0 for a closed
    loop, in which one comes when another ends."""

    shape: ClusterShape
    arrivals_per_s: float = 0.0

    def check(self, simulation: Simulation) -> None:
        """Raise :class:`SettingsError` for a policy that needs to know one engine's scripts."""
        if simulation.foresees:
            raise SettingsError(f"policy {simulation.policy} is for one engine, not for a cluster")

    def run(
        self, simulation: Simulation, scripts: Sequence[ScriptedWorkflow], seed: int
    ) -> ClusterResult:
        starts_s = self._starts_s(len(scripts), seed) if self.arrivals_per_s else None
        return simulate_cluster(simulation, scripts, self.shape, starts_s=starts_s)

    def _starts_s(self, count: int, seed: int) -> Iterator[float]:
        rng = random.Random(f"arrivals/{seed}")
        now_s = 0.0
        for _ in range(count):
            now_s += rng.expovariate(self.arrivals_per_s)
            yield now_s


def cluster_row(plan: ClusterPlan, result: ClusterResult) -> dict[str, Any]:
    """The keys that a ``simulate`` row of a cluster has more."""
    return {
        "replicas": plan.shape.replicas,
        "max_replicas": plan.shape.max_replicas,
        "arrivals_per_s": plan.arrivals_per_s,
        "replicas_started": result.replicas_started,
        "replicas_peak": result.replicas_peak,
        "replica_hours": result.replica_seconds / 3600.0,
        "pins_most": result.pins_most,
        "pins_mean": result.pins_mean,
    }
