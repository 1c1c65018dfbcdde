"""Finished calls on their way to the Redis stream of traces, behind the answers.

Nothing here can slow or fail a request: adding a record is an append to a bounded queue, and a task
of its own writes what waits, in batches. While Redis is away records wait; beyond the queue's
length the oldest are dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from redis.exceptions import RedisError

from pbkv.keys import TRACES_KEY
from pbkv.trace.record import InvocationRecord, RecordKind
from pbkv.trace.wire import to_fields
from router.metrics import RouterMetrics
from router.pins import WorkflowKey
from router.redis_link import RedisLink

logger = logging.getLogger(__name__)

BATCH = 500
MAX_PROMPT_CHARS = 65_536
_PROMPT_FIELDS = ("messages", "prompt", "input")


class TraceWriter:
    """The queue and its task. With ``enabled`` False it takes nothing and writes nothing.

    ``gather_s`` is how long the first record of a batch waits for others.
    """

    def __init__(
        self,
        link: RedisLink,
        metrics: RouterMetrics,
        *,
        enabled: bool,
        max_queued: int,
        max_stream: int,
        retry_s: float,
        gather_s: float = 0.05,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._link = link
        self._metrics = metrics
        self.enabled = enabled
        self._max_queued = max_queued
        self._max_stream = max_stream
        self._retry_s = retry_s
        self._gather_s = gather_s
        self._clock = clock
        self._queue: deque[InvocationRecord] = deque()
        self._waiting = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, record: InvocationRecord) -> None:
        """Queue a record. Never waits and never fails."""
        if not self.enabled:
            return
        self._queue.append(record)
        if len(self._queue) > self._max_queued:
            self._queue.popleft()
            self._metrics.traces_dropped.inc()
        self._metrics.traces_queued.set(len(self._queue))
        self._waiting.set()

    def add_end(self, key: WorkflowKey, seq: int) -> None:
        """Queue the end of a workflow that ended without a call."""
        now_s = self._clock()
        self.add(InvocationRecord(RecordKind.END, key.tenant, key.workflow_id, seq, now_s, now_s))

    def start(self) -> None:
        """Begin to write on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._write_forever())

    async def close(self) -> None:
        """A last try to write what waits; what cannot be written is dropped and counted."""
        # Not by cancelling: see RedisLink.try_anyway.
        self._closing.set()
        self._waiting.set()
        if self._task is not None:
            await self._task
        while self._queue and await self._write_batch():
            pass
        if self._queue:
            logger.warning("%d traces are lost, redis is away", len(self._queue))
            self._metrics.traces_dropped.inc(len(self._queue))
            self._queue.clear()

    async def _write_forever(self) -> None:
        while not self._closing.is_set():
            await self._waiting.wait()
            await self._pause(self._gather_s)
            if not await self._write_batch():
                await self._pause(self._retry_s)
            if not self._queue:
                self._waiting.clear()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def _write_batch(self) -> bool:
        """Write what waits, up to a batch; False if Redis is away and it still waits."""
        if not self._link.available:
            return False
        batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
        try:
            refused = await self._append(batch)
        except (RedisError, OSError, TimeoutError):
            # Whoever asks next notices that Redis is away; the link is not for traces to judge.
            self._put_back(batch)
            return False
        except Exception as problem:
            # One bad batch must not end the task that all later ones depend on.
            logger.error("traces could not be written: %s", type(problem).__name__)
            refused = len(batch)
        self._metrics.traces.inc(len(batch) - refused)
        self._metrics.traces_dropped.inc(refused)
        self._metrics.traces_queued.set(len(self._queue))
        return True

    async def _append(self, batch: list[InvocationRecord]) -> int:
        """Append to the stream; how many Redis refused, or could not be encoded."""
        refused = 0
        async with self._link.client.pipeline(transaction=False) as pipe:
            for record in batch:
                try:
                    fields: dict[Any, Any] = dict(to_fields(record))
                except ValueError:
                    refused += 1
                    continue
                pipe.xadd(TRACES_KEY, fields, maxlen=self._max_stream, approximate=True)
            answers = await pipe.execute(raise_on_error=False)
        return refused + sum(isinstance(answer, Exception) for answer in answers)

    def _put_back(self, batch: list[InvocationRecord]) -> None:
        self._queue.extendleft(reversed(batch))
        while len(self._queue) > self._max_queued:
            self._queue.popleft()
            self._metrics.traces_dropped.inc()


def prompt_text(body: Mapping[str, Any]) -> str | None:
    """The prompt of a request as JSON, cut to :data:`MAX_PROMPT_CHARS`."""
    for field in _PROMPT_FIELDS:
        if field in body:
            return orjson.dumps(body[field]).decode()[:MAX_PROMPT_CHARS]
    return None
