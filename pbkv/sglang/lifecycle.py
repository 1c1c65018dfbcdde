"""Lifecycle events inside the engine: read by rank 0, applied by all ranks in the same order.

Rank 0 pulls requests from the tokenizer and broadcasts them at the start of every scheduler step.
Events and the clock ride in that same broadcast, so they cost no collective of their own and
every rank applies them at the same place among the requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pbkv.errors import InvalidInvocation
from pbkv.events import WorkflowEvent
from pbkv.predict.worker import StampedForecast
from pbkv.sglang.binding import PolicyBinding
from pbkv.sglang.forecasting import Forecaster, apply_forecasts
from pbkv.sglang.requests import invocation_of, parse_invocation
from pbkv.sglang.stream import EventStream

TICK_S = 0.5
"""Longest time between two broadcasts of the clock while the scheduler runs."""


@dataclass(frozen=True, slots=True)
class LifecycleBatch:
    """What rank 0 tells all ranks before the requests of one scheduler step.

    ``bandwidth_tokens`` is S_bw of the prefetch as rank 0 measured it; it comes with every tick.
    """

    now_s: float
    events: tuple[WorkflowEvent, ...]
    tick: bool
    forecasts: tuple[StampedForecast, ...] = ()
    bandwidth_tokens: int = 0


class LifecycleSource:
    """Makes the batches, on rank 0 only."""

    def __init__(
        self,
        stream: EventStream | None,
        forecaster: Forecaster | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._forecaster = forecaster
        self._clock = clock
        self._next_tick_s = clock()

    def poll(self) -> LifecycleBatch | None:
        """The next batch, or None when there is nothing to say. Never blocks."""
        now_s = self._clock()
        events = self._stream.drain() if self._stream is not None else []
        forecasts = self._forecaster.collect() if self._forecaster is not None else ()
        tick = now_s >= self._next_tick_s
        if not events and not forecasts and not tick:
            return None
        if tick:
            self._next_tick_s = now_s + TICK_S
        # Silence is measured on this clock only, whatever clock the event was issued on.
        stamped = tuple(replace(event, at_s=now_s) for event in events)
        return LifecycleBatch(now_s, stamped, tick, forecasts)


def apply_batch(
    binding: PolicyBinding, batch: LifecycleBatch, busy: Callable[[], set[str]]
) -> None:
    """Apply what rank 0 said, on every rank."""
    binding.now_s = batch.now_s
    for event in batch.events:
        binding.policy.on_event(event)
    if batch.tick:
        busy_workflows = busy()
        binding.policy.expire(batch.now_s, busy_workflows.__contains__)
    apply_forecasts(binding.policy, binding.recorder, binding.forecaster, batch.forecasts)


def announce_requests(binding: PolicyBinding, tokenized: Iterable[Any]) -> None:
    """Every new request with an invocation is an event of its workflow."""
    for request in tokenized:
        try:
            invocation = parse_invocation(getattr(request, "sampling_params", None), binding.now_s)
        except InvalidInvocation:
            binding.recorder.rejected_event()
            continue
        if invocation is not None:
            binding.policy.on_event(WorkflowEvent.invoke(invocation))
            for sink in binding.hidden_state_sinks:
                sink.announce(request.rid, invocation.workflow_id)


def workflows_in_flight(scheduler: Any) -> set[str]:
    """Workflows with a request that the scheduler waits for or works on."""
    busy: set[str] = set()
    for req in _requests(scheduler):
        invocation = invocation_of(req, scheduler.tree_cache.binding)
        if invocation is not None:
            busy.add(invocation.workflow_id)
    return busy


def _requests(scheduler: Any) -> Iterator[Any]:
    yield from scheduler.waiting_queue
    for batch in (scheduler.running_batch, scheduler.last_batch):
        if batch is not None:
            yield from batch.reqs
    if scheduler.chunked_req is not None:
        yield scheduler.chunked_req
