"""Who of several watchers acts: the holder of a Lease."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from services.fleet.errors import Conflict, FleetError, NotFound

logger = logging.getLogger(__name__)

DURATION_S = 15


class Api(Protocol):
    """What a lease needs of :class:`services.fleet.cluster.Cluster`."""

    def get(self, path: str, **query: str) -> dict[str, Any]: ...
    def create(self, path: str, item: Any) -> dict[str, Any]: ...
    def replace(self, path: str, item: Any) -> dict[str, Any]: ...


class Lease:
    """Renewed by :meth:`hold`, several times within ``DURATION_S``.

    Another's lease is taken over once it was seen unchanged for its duration on *our* clock: the
    clocks of two nodes need not agree. Of several takers the server's version check picks one.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._identity = identity
        self._clock = clock
        self._wall_clock = wall_clock
        self._seen_version = ""
        self._seen_at_s = 0.0
        self._held_at_s: float | None = None

    @property
    def held(self) -> bool:
        """Whether nobody else can hold it now, even if the API server is away."""
        return self._held_at_s is not None and self._clock() - self._held_at_s < DURATION_S

    def hold(self) -> bool:
        """Renew the lease, or take it if it is free; whether it is ours now."""
        began_s = self._clock()
        try:
            ours = self._renew_or_take()
        except Conflict:
            ours = False
        except FleetError as problem:
            logger.warning("cannot renew the lease: %s", problem)
            return self.held
        if ours and not self.held:
            logger.info("%s leads", self._identity)
        self._held_at_s = began_s if ours else None
        return ours

    def release(self) -> None:
        """Let another take over at once."""
        if not self.held:
            return
        self._held_at_s = None
        try:
            lease = self._api.get(f"{self._folder}/{self._name}")
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"]["holderIdentity"] = ""
                self._api.replace(f"{self._folder}/{self._name}", lease)
        except FleetError as problem:
            logger.warning("the lease was not released, it runs out by itself: %s", problem)

    def _renew_or_take(self) -> bool:
        path = f"{self._folder}/{self._name}"
        try:
            lease = self._api.get(path)
        except NotFound:
            metadata = {"name": self._name}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            self._api.create(self._folder, {**body, "spec": self._spec({}, taking=True)})
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen_version:
            self._seen_version, self._seen_at_s = version, self._clock()
        lapsed_s = self._clock() - self._seen_at_s
        duration_s = spec.get("leaseDurationSeconds") or DURATION_S
        if holder not in ("", self._identity) and lapsed_s < duration_s:
            return False
        lease["spec"] = self._spec(spec, taking=holder != self._identity)
        self._api.replace(path, lease)
        return True

    def _spec(self, before: dict[str, Any], *, taking: bool) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._wall_clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": DURATION_S,
            "renewTime": now,
        }
        if taking:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = before.get("leaseTransitions", -1) + 1
        return spec
