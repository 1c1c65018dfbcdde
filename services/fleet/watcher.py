"""The watcher: makes the requests in Redis those that nodes and pods call for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from services.fleet.errors import FleetError, NotFound
from services.fleet.leaving import (
    DELETION_COST,
    Node,
    PlacedReplica,
    Pod,
    wanted_costs,
    wanted_drains,
)

logger = logging.getLogger(__name__)

# Every drain request is repeated well within its time to live.
STEP_S = 5.0


class Collected(Protocol):
    """What the watcher needs of :class:`services.fleet.watching.Mirror`."""

    def items(self) -> list[Mapping[str, Any]]: ...


class Requests(Protocol):
    """What it needs of :class:`services.fleet.drains.DrainRequests`."""

    def replicas(self) -> list[PlacedReplica]: ...
    def ask(self, replica_id: str, reason: str) -> None: ...
    def withdraw(self, replica_id: str) -> None: ...
    def asked(self) -> dict[str, str]: ...


class Api(Protocol):
    """What it needs of :class:`services.fleet.cluster.Cluster`."""

    def create(self, path: str, item: Any) -> dict[str, Any]: ...
    def patch(self, path: str, change: Any) -> dict[str, Any]: ...


@dataclass
class FleetWatcher:
    """Level-triggered: every step compares what is with what should be, so nothing that was
    missed stays missed. Only the leader's steps act.
    """

    api: Api
    namespace: str
    nodes: Collected
    pods: Collected
    requests: Requests
    extra_taints: Collection[str] = ()
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    woken: threading.Event = field(default_factory=threading.Event)
    stepped_at_s: float = 0.0

    def wake(self) -> None:
        """Something changed: step now, not at the next turn."""
        self.woken.set()

    def run(self, leads: Callable[[], bool], stopped: threading.Event) -> None:
        """Step until ``stopped``, at every change and every ``STEP_S``."""
        while not stopped.is_set():
            self.woken.clear()
            if leads():
                try:
                    self.step()
                except FleetError as problem:
                    logger.warning("%s; again in %g s", problem, STEP_S)
            self.stepped_at_s = self.clock()
            self.woken.wait(STEP_S)

    def step(self) -> None:
        """Ask, withdraw, price. Raises :class:`FleetError`; the next step does what is left."""
        nodes = [Node.read(item, self.extra_taints) for item in self.nodes.items()]
        pods = [Pod.read(item) for item in self.pods.items()]
        replicas = self.requests.replicas()
        wanted = wanted_drains(nodes, pods, replicas)
        asked = self.requests.asked()
        for replica_id, reason in wanted.items():
            self.requests.ask(replica_id, reason)
            if replica_id not in asked:
                self._tell(replica_id, replicas, pods, "ReplicaDraining", f"{reason}; it drains")
        # Replicas of others, by whomever they were asked, are none of ours.
        ours = {pod.address for pod in pods if pod.address}
        known = {replica.replica_id for replica in replicas if replica.address in ours}
        for replica_id in asked.keys() - wanted.keys():
            if replica_id in known:
                self.requests.withdraw(replica_id)
                self._tell(replica_id, replicas, pods, "ReplicaStays", "it takes workflows again")
        for pod, cost in wanted_costs(pods, replicas).items():
            self._price(pod, cost)

    def _price(self, pod: str, cost: int) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}"
        change = {"metadata": {"annotations": {DELETION_COST: str(cost)}}}
        try:
            self.api.patch(path, change)
        except NotFound:
            logger.debug("pod %s went before it got its deletion cost", pod)

    def _tell(
        self,
        replica_id: str,
        replicas: list[PlacedReplica],
        pods: list[Pod],
        reason: str,
        message: str,
    ) -> None:
        """An Event at the RayService of the replica, or at its pod. Failing to is no failure."""
        logger.info("replica %s: %s", replica_id, message)
        address = next((r.address for r in replicas if r.replica_id == replica_id), "")
        pod = next((p for p in pods if p.address == address), None)
        if pod is None:
            return
        about = {"apiVersion": "v1", "kind": "Pod", "name": pod.name}
        if pod.ray_service:
            about = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": pod.ray_service}
        now = datetime.fromtimestamp(self.wall_clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "pbkv-fleet-", "namespace": self.namespace},
            "involvedObject": {**about, "namespace": self.namespace},
            "type": "Normal",
            "reason": reason,
            "message": f"replica {replica_id} in pod {pod.name}: {message}",
            "source": {"component": "pbkv-fleet"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self.api.create(f"/api/v1/namespaces/{self.namespace}/events", event)
        except FleetError as problem:
            logger.warning("the event was not written: %s", problem)
