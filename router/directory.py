"""The replicas as this router knows them: read from Redis in the background, kept while it is away.

A replica whose entry is gone is gone, with two exceptions. While Redis is away nothing is known to
be gone. And when Redis lost its data, the replicas of before are trusted for one heartbeat
time-out: they register again within it. A marker key tells a lost entry from lost data.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from pydantic import ValidationError
from redis.asyncio import Redis

from pbkv.keys import PREFIX, REPLICAS_PATTERN, replica_key
from router.pins import pins_key
from router.placement import Candidate
from router.replica import Replica

logger = logging.getLogger(__name__)

MARKER_KEY = f"{PREFIX}marker"
"""Set once in the life of a data set; whoever finds another value knows that data was lost."""

_SCAN_COUNT = 1000
_SCAN_SHARE = 20
"""A scan of all keys that took t seconds is repeated after this times t at the earliest."""


@dataclass(slots=True)
class _Known:
    replica: Replica
    pinned: int
    trusted_until_s: float = 0.0
    down_until_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Look:
    """What Redis said at one look: the entries by replica id (empty without one), and pins."""

    marker: str
    entries: dict[str, dict[str, str]]
    pinned: dict[str, int]


class ReplicaDirectory:
    """Last known replicas. Times are of ``clock``, a monotonic one."""

    def __init__(
        self,
        client: Redis,
        *,
        heartbeat_ttl_s: float,
        mark_down_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._heartbeat_ttl_s = heartbeat_ttl_s
        self._mark_down_s = mark_down_s
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._marker = ""
        self._next_scan_s = 0.0
        self._malformed: set[str] = set()

    def all(self) -> list[Candidate]:
        """Every known replica, by id."""
        return [Candidate(k.replica, k.pinned) for _, k in sorted(self._known.items())]

    def get(self, replica_id: str) -> Replica | None:
        known = self._known.get(replica_id)
        return known.replica if known else None

    def down(self) -> frozenset[str]:
        """Replicas that refused this router a connection a moment ago."""
        now_s = self._clock()
        return frozenset(i for i, k in self._known.items() if k.down_until_s > now_s)

    def trusted(self) -> frozenset[str]:
        """Replicas that serve although Redis has no entry of them yet."""
        now_s = self._clock()
        return frozenset(
            i for i, k in self._known.items() if k.trusted_until_s > now_s and k.replica.serving
        )

    def ready(self) -> list[Candidate]:
        """Replicas that take new workflows."""
        down = self.down()
        return [c for c in self.all() if c.replica.state == "ready" and c.replica.id not in down]

    def models(self, *, ready_only: bool = False) -> list[str]:
        """Names of the models that are served, or are about to be."""
        candidates = self.ready() if ready_only else self.all()
        return sorted({candidate.replica.model for candidate in candidates})

    def mark_down(self, replica_id: str) -> None:
        """A connection to the replica failed: leave it out for a moment."""
        known = self._known.get(replica_id)
        if known is not None:
            known.down_until_s = self._clock() + self._mark_down_s

    def count_pin(self, replica_id: str) -> None:
        """This router pinned a workflow; the next refresh brings the true count."""
        known = self._known.get(replica_id)
        if known is not None:
            known.pinned += 1

    def trust_all(self) -> None:
        """Believe in all known replicas for one heartbeat time-out, entry or not."""
        until_s = self._clock() + self._heartbeat_ttl_s
        for known in self._known.values():
            known.trusted_until_s = until_s

    async def refresh(self, *, find_new: bool = False) -> None:
        """Read the entries. Raises redis-py's errors, and then changes nothing.

        New replicas are looked for when it is time, when none is ready, or if ``find_new``.
        """
        find_new = find_new or self._clock() >= self._next_scan_s
        found = await self._scan() if find_new else set()
        look = await self._look(found | set(self._known))
        if not find_new and not any(
            entry.get("state") == "ready" for entry in look.entries.values()
        ):
            # Before the old ones are dropped, so that no request comes in between.
            look = await self._look(await self._scan() | set(self._known))
        self._apply(look)

    async def _look(self, ids: set[str]) -> _Look:
        ordered = sorted(ids)
        async with self._client.pipeline(transaction=False) as pipe:
            pipe.set(MARKER_KEY, uuid4().hex, nx=True)
            pipe.get(MARKER_KEY)
            pipe.time()
            for replica_id in ordered:
                pipe.hgetall(replica_key(replica_id))
            _, marker, (redis_s, _us), *entries = await pipe.execute()
            for replica_id in ordered:
                pipe.zcount(pins_key(replica_id), redis_s, "+inf")
            counts = await pipe.execute()
        return _Look(
            marker,
            dict(zip(ordered, entries, strict=True)),
            dict(zip(ordered, counts, strict=True)),
        )

    def _apply(self, look: _Look) -> None:
        if self._marker and look.marker != self._marker:
            logger.warning("redis lost its data; trusting the known replicas until they register")
            self.trust_all()
        self._marker = look.marker
        for replica_id, entry in look.entries.items():
            self._update(replica_id, entry, look.pinned[replica_id])

    def _update(self, replica_id: str, entry: dict[str, str], pinned: int) -> None:
        known = self._known.get(replica_id)
        if not entry:
            if known is not None and known.trusted_until_s <= self._clock():
                del self._known[replica_id]
            return
        try:
            replica = Replica.from_hash(replica_id, entry)
        except ValidationError as problem:
            self._known.pop(replica_id, None)
            if replica_id not in self._malformed:
                self._malformed.add(replica_id)
                fields = [".".join(map(str, error["loc"])) for error in problem.errors()]
                logger.warning("replica %s is left out: malformed %s", replica_id, fields)
            return
        self._malformed.discard(replica_id)
        if known is None:
            self._known[replica_id] = _Known(replica, pinned)
            return
        if replica.epoch != known.replica.epoch:
            # Started anew: what was said of its predecessor is void.
            known.down_until_s = 0.0
        known.replica = replica
        known.pinned = pinned
        known.trusted_until_s = 0.0

    async def _scan(self) -> set[str]:
        began_s = self._clock()
        prefix = replica_key("")
        found: set[str] = set()
        async for key in self._client.scan_iter(match=REPLICAS_PATTERN, count=_SCAN_COUNT):
            found.add(str(key).removeprefix(prefix))
        now_s = self._clock()
        self._next_scan_s = now_s + _SCAN_SHARE * (now_s - began_s)
        return found
