"""A replica's entry in Redis, kept alive by a heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from redis.exceptions import RedisError

from pbkv.keys import drain_key, events_key, replica_key
from router.redis_client import async_redis_client
from services.engine.metrics import EngineLoad

logger = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
TTL_S = 3
# With a heartbeat after it still within the time-to-live, for which routers trust the replicas that
# they know once they reach a new master: a beat that hangs at the old one must be over by then.
_REDIS_TIMEOUT_S = 1.0


class ReplicaState(StrEnum):
    """What routers may do with a replica: nothing yet, everything, or only finish."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """What never changes in the life of a replica. ``epoch`` is its start time in milliseconds."""

    replica_id: str
    url: str
    model: str
    epoch: int


class Registration:
    """Writes ``pbkv:replica:{id}`` at every heartbeat, whole, so that a Redis that lost its data
    knows the replica again one heartbeat after its return. Redis being away is no error: it is
    logged once and tried again.

    Someone who knows that this replica's place is going may ask it to drain by ``pbkv:drain:{id}``
    (:mod:`services.fleet`). While that key is there a ready replica is published as draining; it
    is ready again when the key is gone.

    ``read_load`` answers at once with the latest reading, None once the engine is dead: the entry
    is then removed, so that no router waits for its expiry.
    """

    def __init__(
        self,
        identity: ReplicaIdentity,
        redis_url: str,
        read_load: Callable[[], EngineLoad | None],
        *,
        heartbeat_s: float = HEARTBEAT_S,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.identity = identity
        self.state = ReplicaState.STARTING
        self.asked_to_drain = False
        self._read_load = read_load
        self._heartbeat_s = heartbeat_s
        self._wall_clock = wall_clock
        self._redis = async_redis_client(
            redis_url,
            decode_responses=True,
            socket_connect_timeout=_REDIS_TIMEOUT_S,
            socket_timeout=_REDIS_TIMEOUT_S,
        )
        self._key = replica_key(identity.replica_id)
        self._lost = False
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the heartbeat on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._beat_forever())

    async def enter(self, state: ReplicaState) -> None:
        """Change the state and publish it now, not at the next heartbeat."""
        self.state = state
        await self.beat()

    async def beat(self) -> bool:
        """Publish once; whether Redis took it."""
        load = self._read_load()
        try:
            if load is None:
                await self._redis.delete(self._key)
            else:
                await self._read_request()
                async with self._redis.pipeline(transaction=True) as pipe:
                    entry: dict[Any, Any] = dict(self.fields(load))
                    pipe.hset(self._key, mapping=entry)
                    pipe.expire(self._key, TTL_S)
                    await pipe.execute()
        except (RedisError, OSError) as problem:
            if not self._lost:
                logger.warning("redis is away, will try again: %s", problem)
            self._lost = True
            return False
        if self._lost:
            logger.warning("redis is back")
        self._lost = False
        return True

    def fields(self, load: EngineLoad) -> dict[str, str]:
        """The fields of the entry."""
        entry = {
            "url": self.identity.url,
            "state": self._published_state.value,
            "model": self.identity.model,
            "epoch": str(self.identity.epoch),
            "kv_tokens_total": str(load.kv_tokens_total),
            "kv_tokens_used": str(load.kv_tokens_used),
            "kv_tokens_active": str(load.kv_tokens_active),
            "kv_tokens_retired": str(load.kv_tokens_retired),
            "workflows": str(load.workflows),
            "running_requests": str(load.running_requests),
            "queued_requests": str(load.queued_requests),
            "hit_rate": f"{load.hit_rate:.4f}",
            "updated_at": f"{self._wall_clock():.3f}",
        }
        if load.forecast_accuracy is not None:
            entry["forecast_accuracy"] = f"{load.forecast_accuracy:.4f}"
        return entry

    async def close(self) -> None:
        """End the heartbeat and remove the entry, and the events that no one will read again."""
        # Not by cancelling: in the middle of a command the client may turn a cancellation into a
        # time-out, and the heartbeat would go on.
        self._closing.set()
        if self._task is not None:
            await self._task
            self._task = None
        try:
            await self._redis.delete(self._key, events_key(self.identity.replica_id))
        except (RedisError, OSError) as problem:
            logger.warning("could not remove the entry, it will expire: %s", problem)
        await self._redis.aclose()

    @property
    def _published_state(self) -> ReplicaState:
        if self.asked_to_drain and self.state is ReplicaState.READY:
            return ReplicaState.DRAINING
        return self.state

    async def _read_request(self) -> None:
        reason = await self._redis.get(drain_key(self.identity.replica_id))
        if reason and not self.asked_to_drain:
            logger.info("asked to drain: %s", reason)
        elif self.asked_to_drain and not reason:
            logger.info("no longer asked to drain")
        self.asked_to_drain = bool(reason)

    async def _beat_forever(self) -> None:
        while not self._closing.is_set():
            await self.beat()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._heartbeat_s)
