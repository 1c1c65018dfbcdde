"""Runs workflows against an endpoint: who starts when, and what is recorded.

In a closed loop a workflow is due when an earlier one makes room. In an open loop it is due at its
time, whether the endpoint keeps up or not; with a limit on top it may start late, and what it then
waits counts as its latency.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from loadgen.errors import BadLoad
from loadgen.records import CallRecord, RunRecords, WorkflowRecord, WorkflowState
from loadgen.tally import Tally


@dataclass(frozen=True, slots=True)
class Pace:
    """How much at a time, and for how long.

    ``concurrency`` workflows at most (None: no limit, for open loops); the first ``warm_up``
    workflows are not measured; none starts after ``limit_s`` seconds, those under way finish.
    """

    concurrency: int | None
    warm_up: int = 0
    limit_s: float | None = None


class WorkflowRunner(Protocol):
    """Runs one workflow from its first call to its end."""

    async def __call__(
        self, index: int, due_s: float, record: Callable[[CallRecord], None]
    ) -> tuple[str, WorkflowState]:
        """Workflow ``index``: its id and how it ended. When cancelled, it ends what it began."""
        ...


class Run:
    """One run. ``clock`` counts seconds from its start."""

    def __init__(
        self,
        runner: WorkflowRunner,
        count: int,
        pace: Pace,
        clock: Callable[[], float],
        *,
        due_times: Iterator[float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if due_times is None and pace.concurrency is None:
            raise BadLoad("a closed loop needs a number of workflows at a time")
        self.records = RunRecords()
        self.tally = Tally()
        self._runner = runner
        self._count = count
        self._pace = pace
        self._clock = clock
        self._due_times = due_times
        self._sleep = sleep
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Cut what is under way; the records of what was measured stay."""
        self._stopping.set()

    async def __call__(self) -> RunRecords:
        """Until all workflows ended or :meth:`stop` was called."""
        starting = asyncio.create_task(
            self._closed() if self._due_times is None else self._open(self._due_times)
        )
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            self.records.interrupted = not starting.done()
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
            self.records.duration_s = self._clock()
        return self.records

    async def _closed(self) -> None:
        indices = iter(range(self._count))

        async def work() -> None:
            for index in indices:
                if self._over():
                    return
                await self._one(index, self._clock())

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._pace.concurrency or 1, self._count)):
                group.create_task(work())

    async def _open(self, due_times: Iterator[float]) -> None:
        room = asyncio.Semaphore(self._pace.concurrency or self._count)

        async def enter(index: int, due_s: float) -> None:
            self.records.waiting += 1
            async with room:
                self.records.waiting -= 1
                await self._one(index, due_s)

        async with asyncio.TaskGroup() as group:
            for index, due_s in zip(range(self._count), due_times, strict=False):
                if self._over(due_s):
                    return
                await self._sleep(max(0.0, due_s - self._clock()))
                group.create_task(enter(index, due_s))

    def _over(self, at_s: float | None = None) -> bool:
        limit_s = self._pace.limit_s
        return limit_s is not None and (self._clock() if at_s is None else at_s) >= limit_s

    async def _one(self, index: int, due_s: float) -> None:
        self.tally.running += 1
        started_s = self._clock()
        workflow_id, state = await self._runner(index, due_s, self._add_call)
        workflow = WorkflowRecord(
            workflow_id=workflow_id,
            due_s=due_s,
            started_s=started_s,
            finished_s=self._clock(),
            state=state,
            warm_up=index < self._pace.warm_up,
        )
        self.records.workflows.append(workflow)
        self.tally.add_workflow(workflow)
        if state is WorkflowState.CUT:
            raise asyncio.CancelledError

    def _add_call(self, call: CallRecord) -> None:
        self.records.calls.append(call)
        self.tally.add_call(call)


def ascending(times_s: Sequence[float], speed: float) -> Iterator[float]:
    """The start times of a trace, ``speed`` times as fast."""
    return iter([at_s / speed for at_s in times_s])
