"""Replicas that drain: the count does not swing, and none ends with live workflows in time.

The policy runs behind Serve's own wrapper, which applies the bounds and delays of the deployment's
``autoscaling_config``; only what Serve does with the answer (start, drain and end replicas) is a
model, in simulated time.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from services.autoscaling import ACTIVE_METRIC, WorkflowAutoscaling
from services.draining import Drain, DrainState

pytest.importorskip("ray.serve", reason="needs the engine extra")

from ray.serve import autoscaling_policy
from ray.serve.config import AutoscalingConfig

TICK_S = 5.0


@dataclass
class Replica:
    """The times at which its workflows end, and its drain once it is to go."""

    ends_s: list[float] = field(default_factory=list)
    drain: Drain | None = None

    def forget(self, now_s: float) -> None:
        while self.ends_s and self.ends_s[0] <= now_s:
            heapq.heappop(self.ends_s)


class Deployment:
    """One Serve deployment under a steady stream of workflows of equal length."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        policy: WorkflowAutoscaling,
        *,
        replicas: int,
        drain_limit_s: float,
        workflow_s: float,
        load: float,
        share: float = 0.05,
    ) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(autoscaling_policy, "time", SimpleNamespace(time=lambda: self.now_s))
        self._decide = autoscaling_policy._apply_autoscaling_config(policy)
        self._config = AutoscalingConfig(
            min_replicas=1, max_replicas=20, upscale_delay_s=15.0, downscale_delay_s=300.0
        )
        self._drain_limit_s = drain_limit_s
        self._workflow_s = workflow_s
        self._share = share
        self._between_s = workflow_s * share / load
        # As if it had gone on for ever: the load is constant from the start.
        self._next_s = -workflow_s
        self._names = itertools.count()
        self.serving = {f"r{next(self._names)}": Replica() for _ in range(replicas)}
        self.draining: list[Replica] = []
        self.lost_workflows = 0
        self.counts = [replicas]
        self._state: dict[str, Any] = {}
        self._went_at_s: float | None = None

    def run(self, until_s: float) -> None:
        while self.now_s < until_s:
            self.now_s += TICK_S
            for replica in [*self.serving.values(), *self.draining]:
                replica.forget(self.now_s)
            while self._next_s <= self.now_s:
                emptiest = min(self.serving.values(), key=lambda replica: len(replica.ends_s))
                heapq.heappush(emptiest.ends_s, self._next_s + self._workflow_s)
                self._next_s += self._between_s
            self._end_drained()
            self._scale()

    def _end_drained(self) -> None:
        for replica in list(self.draining):
            assert replica.drain is not None
            state = replica.drain.look(self.now_s, busy=bool(replica.ends_s))
            if state is not DrainState.WAITING:
                self.draining.remove(replica)
                self.lost_workflows += len(replica.ends_s)

    def _scale(self) -> None:
        count = len(self.serving)
        wanted, self._state = self._decide(
            SimpleNamespace(
                aggregated_metrics={
                    ACTIVE_METRIC: {
                        name: min(1.0, len(replica.ends_s) * self._share)
                        for name, replica in self.serving.items()
                    }
                },
                running_replicas=list(self.serving),
                current_num_replicas=count,
                target_num_replicas=count,
                total_num_requests=0,
                policy_state=self._state,
                last_scale_down_time=self._went_at_s,
                current_time=self.now_s,
                config=self._config,
            )
        )
        for _ in range(wanted, count):
            # The newest goes, as in Serve.
            _, victim = self.serving.popitem()
            victim.drain = Drain(self.now_s, self._drain_limit_s, settle_s=3.0)
            self.draining.append(victim)
            self._went_at_s = self.now_s
        for _ in range(count, wanted):
            self.serving[f"r{next(self._names)}"] = Replica()
        if wanted != count:
            self.counts.append(wanted)


def ups(counts: list[int]) -> int:
    return sum(after > before for before, after in itertools.pairwise(counts))


def run_for_hours(
    monkeypatch: pytest.MonkeyPatch, load: float, workflow_s: float, *, known_limit_s: float
) -> Deployment:
    """Sixteen replicas for a load that needs fewer; the policy knows of ``known_limit_s``."""
    deployment = Deployment(
        monkeypatch,
        WorkflowAutoscaling(drain_limit_s=known_limit_s),
        replicas=16,
        drain_limit_s=workflow_s + 20.0,
        workflow_s=workflow_s,
        load=load,
    )
    deployment.run(4 * 3600.0)
    return deployment


STEADY = pytest.mark.parametrize(
    ("load", "workflow_s"), [(1.5, 1500.0), (2.0, 590.0), (3.3, 3000.0), (7.0, 1500.0)]
)


@STEADY
def test_the_count_falls_to_the_load_and_never_swings(
    monkeypatch: pytest.MonkeyPatch, load: float, workflow_s: float
) -> None:
    limit_s = workflow_s + 20.0
    deployment = run_for_hours(monkeypatch, load, workflow_s, known_limit_s=limit_s)
    assert ups(deployment.counts) == 0, deployment.counts
    assert load / 0.9 <= deployment.counts[-1] < load / 0.9 / 0.8 + 1
    assert deployment.lost_workflows == 0
    assert deployment.draining == []


@STEADY
def test_without_knowing_of_drains_it_would(
    monkeypatch: pytest.MonkeyPatch, load: float, workflow_s: float
) -> None:
    """What the rule is for: the load seems to fall because replicas went, so more go."""
    deployment = run_for_hours(monkeypatch, load, workflow_s, known_limit_s=0.0)
    assert ups(deployment.counts) > 0, deployment.counts


def test_only_workflows_longer_than_the_limit_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Deployment(
        monkeypatch,
        WorkflowAutoscaling(drain_limit_s=100.0),
        replicas=6,
        drain_limit_s=100.0,
        workflow_s=1000.0,
        load=1.5,
    )
    deployment.run(4 * 3600.0)
    assert deployment.lost_workflows > 0
