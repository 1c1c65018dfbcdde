"""Runs a predictor in a thread of its own, beside whoever asks for forecasts.

Nothing that the asking side calls waits for the predictor: it hands over requests and picks up what
is finished, each under a lock that is held for a dictionary operation.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pbkv.forecast import (
    Forecast,
    OnlinePredictor,
    Predictor,
    RemainingCallsPredictor,
    WorkflowPredictor,
)
from pbkv.policy.score import noisy

logger = logging.getLogger(__name__)

MAX_BATCH = 64
"""Workflows in one call of the predictor."""

MAX_OBSERVATIONS = 10_000
"""Observations that wait for the predictor; beyond that the oldest are lost."""

Stamp = tuple[int, int]
"""Which call of which workflow a forecast was made after, see ``Workflow.stamp``."""


class HiddenState(Protocol):
    """A hidden state that may still be on its way from the device."""

    def read(self) -> NDArray[np.float32]:
        """The state, shape (D,). Waits for it: for the predictor's thread only."""
        ...


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """Asks for a forecast of one workflow that has made the calls of ``prefix``."""

    workflow_id: str
    stamp: Stamp
    prefix: tuple[str, ...]
    hidden_state: HiddenState | None = None


@dataclass(frozen=True, slots=True)
class StampedForecast:
    """A finished forecast and the call that it was made after."""

    forecast: Forecast
    stamp: Stamp


class ForecastWorker:
    """The thread, and its two queues.

    Requests are coalesced: of one workflow only the latest is answered, and what waits is answered
    in batches. A predictor that fails costs the forecasts of that batch, which are counted and
    logged, and the next batch is tried again. Without a predictor, as long as the first is still to
    come, requests are dropped.
    """

    def __init__(
        self,
        predictor: Predictor | None,
        *,
        noise: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        on_batch: Callable[[float], None] = lambda seconds: None,
        on_failure: Callable[[int], None] = lambda forecasts: None,
    ) -> None:
        self._use(predictor)
        self._replacement: Predictor | None = None
        self._noise = noise
        self._clock = clock
        self._on_batch = on_batch
        self._on_failure = on_failure
        self._wake = threading.Condition()
        self._waiting: dict[str, ForecastRequest] = {}
        self._stopped = False
        # Appends and pops of a deque are atomic, so these two need no lock.
        self._observations: deque[tuple[Sequence[str], str | None]] = deque(maxlen=MAX_OBSERVATIONS)
        self._finished: deque[StampedForecast] = deque()
        self._thread = threading.Thread(target=self._run, name="pbkv-forecasts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let the batch in hand finish, drop the rest, and wait for the thread."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        self._thread.join()

    def submit(self, request: ForecastRequest) -> None:
        """Ask for a forecast; it replaces what waits for the same workflow."""
        with self._wake:
            self._waiting[request.workflow_id] = request
            self._wake.notify()

    @property
    def wants_hidden_states(self) -> bool:
        return self._predictor is not None and self._predictor.wants_hidden_states

    def replace(self, predictor: Predictor) -> None:
        """Use ``predictor`` from the next batch on; what waits is answered by it."""
        with self._wake:
            self._replacement = predictor

    def drop(self, workflow_id: str) -> None:
        """Nobody wants a forecast of that workflow any more."""
        with self._wake:
            self._waiting.pop(workflow_id, None)

    def observe(self, prefix: Sequence[str], following: str | None) -> None:
        """What came after ``prefix``, for a predictor that learns; before the next batch."""
        if self._learner is not None:
            self._observations.append((prefix, following))

    def collect(self) -> tuple[StampedForecast, ...]:
        """What is finished since the last call, in the order it was made."""
        if not self._finished:
            return ()
        finished: list[StampedForecast] = []
        while self._finished:
            finished.append(self._finished.popleft())
        return tuple(finished)

    def _use(self, predictor: Predictor | None) -> None:
        self._predictor = predictor
        self._learner = predictor if isinstance(predictor, OnlinePredictor) else None

    # ---- in the thread ----

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting and not self._stopped:
                    self._wake.wait()
                if self._stopped:
                    return
                workflow_ids = list(self._waiting)[:MAX_BATCH]
                requests = [self._waiting.pop(workflow_id) for workflow_id in workflow_ids]
                replacement, self._replacement = self._replacement, None
            if replacement is not None:
                self._use(replacement)
            predictor = self._predictor
            if predictor is None:
                continue
            self._learn()
            blind = [request for request in requests if request.hidden_state is None]
            seeing = [request for request in requests if request.hidden_state is not None]
            for batch in (blind, seeing):
                if batch:
                    self._answer(predictor, batch)

    def _learn(self) -> None:
        while self._learner is not None and self._observations:
            prefix, following = self._observations.popleft()
            try:
                self._learner.observe(prefix, following)
            except Exception:
                logger.exception("pbkv: the predictor could not learn from a call")

    def _answer(self, predictor: Predictor, requests: list[ForecastRequest]) -> None:
        start_s = time.perf_counter()
        try:
            self._finished.extend(self._forecasts(predictor, requests))
        except Exception:
            # A predictor may be anyone's code; without its forecasts the policy is lae, no worse.
            logger.exception("pbkv: the predictor failed on %d workflows", len(requests))
            self._on_failure(len(requests))
        self._on_batch(time.perf_counter() - start_s)

    def _forecasts(
        self, predictor: Predictor, requests: list[ForecastRequest]
    ) -> list[StampedForecast]:
        states = [request.hidden_state.read() for request in requests if request.hidden_state]
        hidden_states = np.stack(states) if states else _no_hidden_states(len(requests))
        answers = _ask(predictor, requests, hidden_states)
        if len(answers) != len(requests) or not np.isfinite(answers).all():
            raise ValueError(f"{len(requests)} finite forecasts expected, got {answers.shape}")
        agents, version = predictor.agents, predictor.version
        made_at_s = self._clock()
        return [
            StampedForecast(
                Forecast(
                    request.workflow_id,
                    agents,
                    noisy(answer, self._noise),
                    made_at_s,
                    version,
                    remaining,
                ),
                request.stamp,
            )
            for request, answer, remaining in zip(
                requests, answers, _remaining_calls(predictor, len(requests)), strict=True
            )
        ]


def _remaining_calls(predictor: Predictor, rows: int) -> Sequence[float | None]:
    """Of the forecast just made, by row."""
    if not isinstance(predictor, RemainingCallsPredictor):
        return [None] * rows
    remaining = predictor.remaining_calls
    if remaining.shape != (rows,) or np.isinf(remaining).any():
        raise ValueError(f"{rows} finite numbers of calls expected, got {remaining.shape}")
    return [None if math.isnan(calls) else float(calls) for calls in remaining]


def _ask(
    predictor: Predictor, requests: list[ForecastRequest], hidden_states: NDArray[np.float32]
) -> NDArray[np.float32]:
    prefixes = [request.prefix for request in requests]
    if isinstance(predictor, WorkflowPredictor):
        workflow_ids = [request.workflow_id for request in requests]
        return predictor.forecast_workflows(workflow_ids, prefixes, hidden_states)
    return predictor.forecast(prefixes, hidden_states)


def _no_hidden_states(rows: int) -> NDArray[np.float32]:
    return np.empty((rows, 0), dtype=np.float32)
