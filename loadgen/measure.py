"""A whole measurement: find the model, read counters, run, read them again, say what is odd."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace

import aiohttp

from loadgen.arrivals import ArrivalKind, Arrivals
from loadgen.client import ChatClient
from loadgen.counters import disagreement, read_engines
from loadgen.errors import BadLoad
from loadgen.open_files import allow_streams
from loadgen.records import RunRecords
from loadgen.run import Pace, Run, WorkflowRunner, ascending
from loadgen.scripted import ScriptedRunner
from loadgen.source import Source
from loadgen.tally import Tally
from loadgen.target import Target, first_model

Clock = Callable[[], float]
OpenRunner = Callable[
    [aiohttp.ClientSession, Target, Clock], AbstractAsyncContextManager[WorkflowRunner]
]

_LAG_WORTH_SAYING_S = 0.05


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What to run. ``prefix`` begins every workflow id, so that runs do not meet in a cache."""

    source: Source
    target: Target
    pace: Pace
    arrivals: Arrivals
    prefix: str
    seed: int = 0
    pause_scale: float = 1.0

    def __post_init__(self) -> None:
        # What cannot be is refused before anything is sent.
        self.due_times()
        if self.pace.warm_up >= len(self.source.scripts):
            raise BadLoad(
                f"a warm-up of {self.pace.warm_up} leaves none of {len(self.source.scripts)} "
                "workflows to measure"
            )

    def describe(self) -> str:
        """How the load was put on, as the end of a sentence."""
        at_a_time = self.pace.concurrency
        if self.arrivals.kind is ArrivalKind.CLOSED:
            return f"{at_a_time} at a time, a new one when another ended"
        limit = f", {at_a_time} at a time at most" if at_a_time else ", however many that made"
        return f"{self.arrivals.describe()}{limit}"

    def due_times(self) -> Iterator[float] | None:
        """None in a closed loop."""
        if self.arrivals.kind is ArrivalKind.CLOSED:
            return None
        if self.arrivals.kind is ArrivalKind.TRACE:
            if not self.source.starts_s:
                raise BadLoad(f"{self.source.name} has no times of its own; choose other arrivals")
            return ascending(self.source.starts_s, self.arrivals.speed)
        return self.arrivals.due_times(random.Random(f"arrivals/{self.seed}"))


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it. ``notes`` are lines about what to keep in mind when reading the numbers."""

    records: RunRecords
    model: str
    notes: tuple[str, ...]


async def measure(
    plan: LoadPlan,
    *,
    open_runner: OpenRunner | None = None,
    watch: Callable[[Tally], AbstractAsyncContextManager[None]] | None = None,
) -> Measured:
    """Run ``plan``. SIGINT and SIGTERM end it early, with what was measured until then.

    Raises :class:`loadgen.errors.LoadError` if there is nothing that could be measured.
    """
    # What the system does not allow shows itself call by call, as unreachable.
    allow_streams(plan.pace.concurrency or len(plan.source.scripts))
    async with plan.target.open_session() as session:
        target = plan.target
        if not target.model:
            target = replace(target, model=await first_model(session, target))
        before = await read_engines(session, target)
        began_s = time.perf_counter()

        def clock() -> float:
            return time.perf_counter() - began_s

        opened = (open_runner or _scripted(plan))(session, target, clock)
        async with opened as runner:
            began_s = time.perf_counter()
            run = Run(
                runner, len(plan.source.scripts), plan.pace, clock, due_times=plan.due_times()
            )
            watching = watch(run.tally) if watch else _unwatched()
            with _stopped_by_signals(run):
                async with watching:
                    with _without_collector():
                        records = await run()
        after = await read_engines(session, target)
    engines = after.since(before) if before and after else None
    return Measured(records, target.model, tuple(_notes(records, disagreement(records, engines))))


def _scripted(plan: LoadPlan) -> OpenRunner:
    @asynccontextmanager
    async def opened(
        session: aiohttp.ClientSession, target: Target, clock: Clock
    ) -> AsyncIterator[WorkflowRunner]:
        yield ScriptedRunner(
            plan.source.scripts,
            ChatClient(session, target, clock),
            clock,
            prefix=plan.prefix,
            pause_scale=plan.pause_scale,
        )

    return opened


@asynccontextmanager
async def _unwatched() -> AsyncIterator[None]:
    yield


@contextmanager
def _without_collector() -> Iterator[None]:
    """A full collection among the objects of thousands of workflows stops the loop for tens of
    milliseconds, and nothing of a run makes cycles that would have to be collected before its end.
    """
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _stopped_by_signals(run: Run) -> Iterator[None]:
    """The first signal ends the run with a report, a second one the process."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        run.stop()
        for signum in signals:
            loop.remove_signal_handler(signum)

    # Only the main thread may; elsewhere the caller calls Run.stop itself.
    with suppress(ValueError, RuntimeError):
        for signum in signals:
            loop.add_signal_handler(signum, stop)
    try:
        yield
    finally:
        with suppress(ValueError, RuntimeError):
            for signum in signals:
                loop.remove_signal_handler(signum)


def _notes(records: RunRecords, counters: str) -> Iterator[str]:
    if records.interrupted:
        yield "the run was stopped before its end; what was under way counts as cut"
    if records.waiting:
        yield (
            f"{records.waiting} workflows were due and had not begun when the run ended, for want "
            "of room (--concurrency): latencies would be longer with them"
        )
    if counters:
        yield counters
    again = [call.retries for call in records.calls if call.retries]
    if again:
        yield (
            f"{len(again)} calls were sent again, {sum(again)} times in all, because the endpoint "
            "had no room (429, 503) or failed; their waits are part of TTFT"
        )
    good = [call for call in records.calls if call.error is None]
    silent = sum(call.prompt_tokens is None for call in good)
    if silent:
        yield f"{silent} of {len(good)} answers carried no usage: their tokens are not counted"
    uncached = sum(c.prompt_tokens is not None and c.cached_tokens is None for c in good)
    if uncached:
        yield f"{uncached} of {len(good)} answers carried no cached_tokens: no hit rate from them"
    lags = sorted(call.lag_s for call in records.calls)
    if lags and lags[int(0.99 * (len(lags) - 1))] > _LAG_WORTH_SAYING_S:
        yield "the load generator was late by more than 50 ms (p99): use more cores or less load"
