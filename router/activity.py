"""What the routers of a stack did in the last minutes: counts by ten seconds, added up in Redis.

A page may be answered by another router at every request, so the counters of one router would jump
to and fro. Each router adds what its own counters gained to the counts of all; nothing is done per
request. While Redis is away a router knows its own part, and tells it later.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pbkv.keys import PREFIX
from router.errors import RedisAway
from router.metrics import RouterMetrics
from router.redis_link import RedisLink

INTERVAL_S = 10
WINDOW_S = 900
SAMPLE_S = 5.0
"""How often a router adds what it counted: the counts of an interval are whole so much later."""

_INTERVALS = WINDOW_S // INTERVAL_S

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """Counts by interval; interval ``i`` begins at ``i * INTERVAL_S`` of the wall clock.

    ``scope`` says whose they are: those of all routers, or of this one while Redis is away.
    """

    scope: Literal["fleet", "router"]
    now_s: float
    intervals: Mapping[int, Counts]


class Activity:
    """Samples the counters of ``metrics``. ``clock`` is the wall clock, in seconds."""

    def __init__(
        self, link: RedisLink, metrics: RouterMetrics, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._link = link
        self._metrics = metrics
        self._clock = clock
        self._counted: Counter[str] = Counter()
        self._own: dict[int, Counter[str]] = {}
        self._untold: dict[int, Counter[str]] = {}

    async def keep(self) -> None:
        """Sample and tell for ever."""
        while True:
            await asyncio.sleep(SAMPLE_S)
            self.sample()
            await self.tell()

    def sample(self) -> None:
        """Count what happened since the last sample as of the interval of now."""
        counted = self._metrics.counted()
        gained = counted - self._counted
        self._counted = counted
        interval = int(self._clock() // INTERVAL_S)
        for kept in (self._own, self._untold):
            if gained:
                kept.setdefault(interval, Counter()).update(gained)
            for old in [i for i in kept if i <= interval - _INTERVALS - 1]:
                del kept[old]

    async def tell(self) -> None:
        """Add what was not told yet to the counts of all; nothing while Redis is away."""
        if not self._untold or not self._link.available:
            return
        told, self._untold = self._untold, {}
        try:
            await self._link.ask(lambda: self._add(told))
        except RedisAway:
            # It may have been taken: better missing in a picture than in it twice.
            return

    async def seen(self) -> Seen:
        """The last :data:`WINDOW_S` seconds."""
        now_s = self._clock()
        last = int(now_s // INTERVAL_S)
        wanted = range(last - _INTERVALS, last + 1)
        try:
            found = await self._link.ask(lambda: self._read(wanted))
        except RedisAway:
            return Seen("router", now_s, {i: self._own[i] for i in wanted if i in self._own})
        return Seen("fleet", now_s, found)

    async def _add(self, told: Mapping[int, Counts]) -> None:
        async with self._link.client.pipeline(transaction=True) as pipe:
            for interval, counts in told.items():
                for name, count in counts.items():
                    pipe.hincrby(_key(interval), name, count)
                pipe.expire(_key(interval), WINDOW_S + 2 * INTERVAL_S)
            await pipe.execute()

    async def _read(self, wanted: range) -> dict[int, Counts]:
        async with self._link.client.pipeline(transaction=False) as pipe:
            for interval in wanted:
                pipe.hgetall(_key(interval))
            answers: list[dict[str, Any]] = await pipe.execute()
        return {
            interval: {name: int(count) for name, count in counts.items()}
            for interval, counts in zip(wanted, answers, strict=True)
            if counts
        }


def _key(interval: int) -> str:
    return f"{PREFIX}activity:{interval}"
