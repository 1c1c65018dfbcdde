"""The life of workflows: pinned, called, ended. With Redis, or from memory while it is away."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from redis.exceptions import RedisError

from router.directory import ReplicaDirectory
from router.errors import NoReplicaReady, RedisAway
from router.local_pins import LocalPins
from router.metrics import RouterMetrics
from router.pins import LocalPin, PinAnswer, PinRequest, PinStore, WorkflowKey
from router.placement import rank, rank_by_hash
from router.redis_link import RedisLink
from router.replica import Replica
from router.usage import Usage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pinned:
    """One step of a workflow and the replica that takes it."""

    replica: Replica
    step: int
    seq: int


class Lifecycle:
    """Decides for the endpoints; never fails because of Redis.

    ``clock`` is the wall clock in seconds: seq and times of events are compared over processes.
    """

    def __init__(
        self,
        link: RedisLink,
        store: PinStore,
        directory: ReplicaDirectory,
        memory: LocalPins,
        metrics: RouterMetrics,
        *,
        idle_timeout_s: float,
        retry_after_s: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._link = link
        self._store = store
        self._directory = directory
        self._memory = memory
        self._metrics = metrics
        self._idle_timeout_s = idle_timeout_s
        self._retry_after_s = retry_after_s
        self._clock = clock

    async def call(
        self,
        key: WorkflowKey,
        agent: str,
        model: str,
        *,
        lost: frozenset[str] = frozenset(),
        counts: bool = True,
        metadata: str = "",
    ) -> Pinned:
        """Take the next step of a workflow. Raises :class:`NoReplicaReady`.

        ``lost`` are replicas that failed this very call; then ``counts`` is False, it is the same
        step.
        """
        request = PinRequest(
            key=key,
            agent=agent,
            model=model,
            down=self._directory.down() | lost,
            trusted=self._directory.trusted(),
            counts=counts,
            metadata=metadata,
        )
        try:
            answer = await self._pin_in_redis(request)
        except RedisAway:
            answer = self._pin_in_memory(request)
        if answer is None:
            raise NoReplicaReady(
                f"no replica of {model} is ready", retry_after_s=self._retry_after_s
            )
        if answer.pinned_now:
            self._directory.count_pin(answer.replica_id)
        if answer.moved_for:
            self._metrics.pin_moves.labels(answer.moved_for).inc()
            logger.info("a workflow moved to replica %s: %s", answer.replica_id, answer.moved_for)
        return Pinned(self._replica(answer), answer.step, answer.seq)

    async def _pin_in_redis(self, request: PinRequest) -> PinAnswer | None:
        known = self._known(request.key)

        async def ask() -> PinAnswer | None:
            candidates = self._ranked(request)
            answer = await self._store.pin(request, candidates, known)
            if answer is None and candidates:
                # Redis knows better than this router's last look: look again.
                await self._directory.refresh(find_new=True)
                answer = await self._store.pin(request, self._ranked(request), known)
            return answer

        answer = await self._link.ask(ask)
        if answer is not None:
            self._memory.remember(request, answer, self._clock())
        return answer

    def _ranked(self, request: PinRequest) -> list[str]:
        ranked = rank(
            self._directory.all(),
            model=request.model,
            workflow=request.key.engine_id,
            exclude=request.down,
        )
        return [replica.id for replica in ranked]

    def _pin_in_memory(self, request: PinRequest) -> PinAnswer | None:
        replicas = [candidate.replica for candidate in self._directory.all()]
        ranked = rank_by_hash(
            replicas,
            model=request.model,
            workflow=request.key.engine_id,
            exclude=request.down,
        )
        serving = {replica.id for replica in replicas if replica.serving}
        answer = self._memory.pin(request, [r.id for r in ranked], serving, self._clock())
        self._report_queue()
        return answer

    async def end(self, key: WorkflowKey, agent: str = "", *, call_seq: int = 0) -> int | None:
        """Terminate; a second time is no different from the first. The seq of the end, if any.

        With ``call_seq`` only if no later call was issued.
        """
        known = self._known(key)
        try:
            seq = await self._link.ask(
                lambda: self._store.end(key, agent, known, call_seq=call_seq)
            )
            if seq is not None:
                self._memory.remember_end(key, seq)
        except RedisAway:
            seq = self._memory.end(key, self._clock(), call_seq=call_seq)
            self._report_queue()
        return seq

    async def add_usage(self, key: WorkflowKey, usage: Usage) -> None:
        """Count the tokens of a finished answer; while Redis is away they are not counted."""
        try:
            await self._link.ask(
                lambda: self._store.add_usage(
                    key, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens
                )
            )
        except RedisAway:
            return

    async def keep_fresh(self, refresh_s: float) -> None:
        """Refresh the directory for ever, and notice when Redis is back."""
        while True:
            await self.refresh()
            await asyncio.sleep(refresh_s)

    async def refresh(self) -> None:
        """One look at the replicas; after an absence of Redis, tell it what it missed first."""
        try:
            if self._link.available:
                await self._link.ask(self._directory.refresh)
            else:
                await self._link.try_anyway(self._return_to_redis)
        except RedisAway:
            pass
        except Exception as problem:
            # One bad look must not end the background task that all later ones depend on.
            logger.error("refresh failed: %s: %s", type(problem).__name__, problem)
        self._metrics.redis_available.set(self._link.available)
        self._metrics.show_replicas(self._directory.all())

    async def flush(self) -> None:
        """Tell Redis all events and pins that wait, in order. Raises redis-py's errors."""
        while (queued := self._memory.next_event()) is not None:
            await self._store.publish(queued.replica_id, queued.event)
            self._memory.event_told(queued)
            self._report_queue()
        while (untold := self._memory.next_untold()) is not None:
            key, pin = untold
            seq = pin.seq
            await self._store.merge(key, pin)
            self._memory.pin_told(key, seq)

    async def flush_before_exit(self) -> None:
        """A last try to tell what waits; what cannot be told is lost with this process."""
        try:
            await self.flush()
        except (RedisError, OSError, TimeoutError) as problem:
            logger.warning(
                "%d events are lost, redis is away: %s", self._memory.num_queued, problem
            )

    async def _return_to_redis(self) -> None:
        await self._store.ping()
        # Entries expired while no heartbeat could be written.
        self._directory.trust_all()
        await self._directory.refresh()
        while self._memory.next_event() or self._memory.next_untold():
            await self.flush()
        # No await since the queue was seen empty: no request can have slipped in between.
        self._link.restored()

    def _known(self, key: WorkflowKey) -> LocalPin | None:
        pin = self._memory.get(key)
        if pin is None or self._clock() - pin.last_seen_s <= self._idle_timeout_s:
            return pin
        # It was forgotten by silence: its cache may still be there, its history is over.
        return LocalPin(
            replicas=pin.replicas, replica=pin.replica, seq=pin.seq, created_at_s=self._clock()
        )

    def _replica(self, answer: PinAnswer) -> Replica:
        known = self._directory.get(answer.replica_id)
        if known is not None and answer.url in ("", known.url):
            return known
        # Registered, or moved, since the last refresh.
        return Replica.model_validate(
            {
                "id": answer.replica_id,
                "url": answer.url,
                "state": answer.state,
                "model": answer.model,
            }
        )

    def _report_queue(self) -> None:
        self._metrics.events_queued.set(self._memory.num_queued)
        self._metrics.count_dropped(self._memory.dropped_events)
