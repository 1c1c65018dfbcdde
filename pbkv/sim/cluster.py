"""Many replicas behind a router, with pins, placement and autoscaling, in simulated time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

from pbkv.errors import SettingsError
from pbkv.policy import Tier
from pbkv.sim.client import WorkflowRun
from pbkv.sim.loop import LoopHooks, ServingLoop, SimReplica
from pbkv.sim.result import SimulationResult
from pbkv.sim.simulate import Simulation, make_replica
from pbkv.workload import ScriptedWorkflow

_FEW_PINS = 8

Scaler = Callable[[Sequence[SimReplica], int], int]
"""How many replicas there should be, of those that serve and how many there are with those that
start. In place of ``workflows_per_replica``; bounds and delays are those of the shape.
"""


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """Replicas and how their number follows the load.

    There are ``replicas`` at the start and never fewer; with ``max_replicas`` above that, every
    ``interval_s`` as many are wanted as give each ``workflows_per_replica``. A new one takes
    workflows after ``start_up_s``. With fewer wanted for ``down_delay_s``, one drains: it takes no
    new workflow and goes when its last one ended.
    """

    replicas: int
    max_replicas: int = 0
    workflows_per_replica: int = 64
    start_up_s: float = 90.0
    interval_s: float = 10.0
    down_delay_s: float = 300.0

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.workflows_per_replica < 1:
            raise SettingsError("replicas and workflows_per_replica must be at least 1")
        if self.max_replicas and self.max_replicas < self.replicas:
            raise SettingsError(f"max_replicas is {self.max_replicas}, less than {self.replicas}")
        if self.interval_s <= 0 or self.start_up_s < 0 or self.down_delay_s < 0:
            raise SettingsError("times of a cluster must not be negative, interval_s above 0")

    @property
    def scales(self) -> bool:
        return self.max_replicas > self.replicas


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """``replica_seconds`` are paid for, from the start of a replica's start-up to its end.

    ``pins_most`` and ``pins_mean`` are workflows placed on one replica over the run.
    """

    served: SimulationResult
    replicas_started: int
    replicas_peak: int
    replica_seconds: float
    pins_most: int
    pins_mean: float


class ReplicaState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    GONE = "gone"


@dataclass(slots=True, eq=False)
class _Member:
    """A replica and its life in the cluster."""

    replica: SimReplica
    state: ReplicaState
    started_s: float
    placed: int = 0
    ended_s: float | None = field(default=None)


def simulate_cluster(
    simulation: Simulation,
    scripts: Sequence[ScriptedWorkflow],
    shape: ClusterShape,
    *,
    starts_s: Iterable[float] | None = None,
    hooks: LoopHooks | None = None,
    scaler: Scaler | None = None,
) -> ClusterResult:
    """Run ``scripts`` on a cluster: ``simulation.concurrency`` at a time over all replicas, or with
    ``starts_s`` one at each of these times, ascending.

    Raises :class:`SettingsError` for settings that cannot work, and for a policy that needs to
    know one engine's scripts.
    """
    if simulation.foresees:
        raise SettingsError(f"policy {simulation.policy} is for one engine, not for a cluster")
    cluster = _Cluster(
        shape, lambda name: make_replica(simulation, scripts, None, name=name), scaler
    )
    loop = ServingLoop(
        scripts,
        cluster.place,
        concurrency=simulation.concurrency,
        page_size=simulation.limits.page_size,
        max_new_tokens=simulation.max_new_tokens,
        starts_s=starts_s,
        hooks=hooks or LoopHooks(),
    )
    cluster.follow(loop)
    loop.run()
    return cluster.result(loop)


class _Cluster:
    """Router and autoscaler."""

    def __init__(
        self, shape: ClusterShape, make: Callable[[str], SimReplica], scaler: Scaler | None
    ) -> None:
        self._shape = shape
        self._make = make
        self._scaler = scaler
        self._members: list[_Member] = []
        self._peak = 0
        self._too_many_since_s: float | None = None
        for _ in range(shape.replicas):
            self._add(0.0, ReplicaState.READY)

    # ---- router ----

    def place(self, run: WorkflowRun) -> SimReplica:
        """The replica of a new workflow: few pins and little active cache, as the router scores;
        equal ones by rendezvous hashing."""
        ready = self._in(ReplicaState.READY)
        most = max(_FEW_PINS, *(member.replica.pinned for member in ready))
        workflow_id = run.script.workflow_id

        def score(member: _Member) -> float:
            pins = min(1.0, member.replica.pinned / most)
            return 1.0 - 0.5 * pins - 0.5 * active_share(member.replica)

        best = max(score(member) for member in ready)
        equal = [member for member in ready if score(member) == best]
        chosen = max(equal, key=lambda member: _rendezvous(workflow_id, member.replica.name))
        chosen.placed += 1
        return chosen.replica

    # ---- autoscaler ----

    def follow(self, loop: ServingLoop) -> None:
        """Look at the load every interval, from now on."""
        if self._shape.scales:
            loop.at(loop.now_s + self._shape.interval_s, lambda: self._look(loop))

    def _look(self, loop: ServingLoop) -> None:
        shape, now_s = self._shape, loop.now_s
        for member in self._in(ReplicaState.DRAINING):
            if member.replica.pinned == 0:
                member.state, member.ended_s = ReplicaState.GONE, now_s
        present = [*self._in(ReplicaState.READY), *self._in(ReplicaState.STARTING)]
        if self._scaler is None:
            wanted = math.ceil(len(loop.runs) / shape.workflows_per_replica)
        else:
            ready = [member.replica for member in self._in(ReplicaState.READY)]
            wanted = self._scaler(ready, len(present))
        wanted = min(max(wanted, shape.replicas), shape.max_replicas)
        for _ in range(wanted - len(present)):
            member = self._add(now_s, ReplicaState.STARTING)
            loop.at(now_s + shape.start_up_s, lambda member=member: _get_ready(member))  # type: ignore[misc]
        self._drain(now_s, len(present) - wanted)
        self.follow(loop)

    def _drain(self, now_s: float, too_many: int) -> None:
        if too_many <= 0:
            self._too_many_since_s = None
            return
        if self._too_many_since_s is None:
            self._too_many_since_s = now_s
        if now_s - self._too_many_since_s < self._shape.down_delay_s:
            return
        ready = self._in(ReplicaState.READY)
        for member in sorted(ready, key=lambda m: m.replica.pinned)[
            : min(too_many, len(ready) - 1)
        ]:
            member.state = ReplicaState.DRAINING

    def _add(self, now_s: float, state: ReplicaState) -> _Member:
        member = _Member(self._make(f"replica-{len(self._members)}"), state, now_s)
        self._members.append(member)
        alive = sum(m.state is not ReplicaState.GONE for m in self._members)
        self._peak = max(self._peak, alive)
        return member

    def _in(self, state: ReplicaState) -> list[_Member]:
        return [member for member in self._members if member.state is state]

    # ---- result ----

    def result(self, loop: ServingLoop) -> ClusterResult:
        """What the cluster did until now."""
        members = self._members
        placed = [member.placed for member in members]
        engines = [member.replica.engine for member in members]
        return ClusterResult(
            served=loop.measured.result(loop.now_s, engines),
            replicas_started=len(members),
            replicas_peak=self._peak,
            replica_seconds=sum(
                (loop.now_s if member.ended_s is None else member.ended_s) - member.started_s
                for member in members
            ),
            pins_most=max(placed),
            pins_mean=sum(placed) / len(placed),
        )


def active_share(replica: SimReplica) -> float:
    """Part of the device pool that holds active cache or running requests, 0 to 1."""
    tree, policy = replica.engine.tree, replica.engine.policy
    active = tree.stored_device - policy.retired_tokens(Tier.DEVICE) + tree.private
    return active / tree.device_tokens


def _get_ready(member: _Member) -> None:
    member.state = ReplicaState.READY


def _rendezvous(workflow_id: str, name: str) -> int:
    return int.from_bytes(blake2b(f"{workflow_id}\0{name}".encode(), digest_size=8).digest())
