"""How often the forecasts in use named the agent that really came, and how sure they were of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pbkv.forecast import Forecast

WINDOW = 1_000
"""Forecasts per step that accuracy and calibration are taken over."""

BINS = 10
"""Bins of equal width over the probability of the likeliest outcome."""

Likeliest = tuple[str | None, float]
"""The likeliest outcome of one step (None for END) and its probability."""


class StepTally:
    """The last ``window`` tests of one step (None: all), with their sums kept up to date."""

    def __init__(self, window: int | None = WINDOW) -> None:
        self._window = window
        self._tests: deque[tuple[int, float, bool]] = deque()
        self._hits = 0
        # Per bin: the sum of (hit - probability), whose size is the bin's share of the error.
        self._gaps = [0.0] * BINS

    def __len__(self) -> int:
        return len(self._tests)

    @property
    def accuracy(self) -> float:
        """Share of the forecasts whose likeliest outcome came."""
        return self._hits / len(self._tests)

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: in each bin the distance between how often the likeliest
        outcome came and how probable it was said to be, weighted by the bin's share of the tests.
        """
        return sum(abs(gap) for gap in self._gaps) / len(self._tests)

    def add(self, probability: float, hit: bool) -> None:
        index = min(int(probability * BINS), BINS - 1)
        self._count(index, probability, hit, 1)
        self._tests.append((index, probability, hit))
        if self._window is not None and len(self._tests) > self._window:
            self._count(*self._tests.popleft(), -1)

    def _count(self, index: int, probability: float, hit: bool, sign: int) -> None:
        self._hits += sign * hit
        self._gaps[index] += sign * (hit - probability)


class LiveAccuracy:
    """Top-1 accuracy and calibration per step, over the last forecasts that came to their test.

    The forecast made after call n is tested at step k by call n + k, if the workflow makes it, and
    once by the end in the place of a call: the forecast is conditional on survival, and so is its
    test. Memory is ``steps`` forecasts per workflow, until it ends.
    """

    def __init__(self, steps: int, *, window: int | None = WINDOW) -> None:
        self._steps = steps
        # workflow -> call it was made after -> the likeliest outcome per step
        self._made: dict[str, dict[int, tuple[Likeliest, ...]]] = {}
        self._tallies = [StepTally(window) for _ in range(steps)]

    @property
    def num_workflows(self) -> int:
        return len(self._made)

    def made(self, forecast: Forecast, call: int) -> None:
        """``forecast`` is in use after call number ``call``; it replaces an earlier one of it."""
        outcomes = (*forecast.agents, None)
        rows = forecast.step_probabilities[: self._steps]
        best = rows.argmax(axis=1)
        self._made.setdefault(forecast.workflow_id, {})[call] = tuple(
            (outcomes[column], float(row[column])) for row, column in zip(rows, best, strict=True)
        )

    def happened(self, workflow_id: str, call: int, agent: str | None) -> None:
        """Call number ``call`` was one of ``agent``, or None: the end came instead."""
        made = self._made.get(workflow_id)
        if made is None:
            return
        for step in range(1, self._steps + 1):
            likeliest = made.get(call - step)
            if likeliest is not None and step <= len(likeliest):
                outcome, probability = likeliest[step - 1]
                self._tallies[step - 1].add(probability, outcome == agent)
        for old in [made_after for made_after in made if made_after <= call - self._steps]:
            del made[old]
        if agent is None or not made:
            del self._made[workflow_id]

    def forget(self, workflow_id: str) -> None:
        """The workflow's forecasts will not be tested."""
        self._made.pop(workflow_id, None)

    def by_step(self) -> Iterator[tuple[int, float]]:
        """(k, accuracy at step k), for the steps that were tested at all."""
        for step, tally in self._tested():
            yield step, tally.accuracy

    def calibration_by_step(self) -> Iterator[tuple[int, float]]:
        """(k, expected calibration error at step k), for the steps that were tested at all."""
        for step, tally in self._tested():
            yield step, tally.calibration_error

    def _tested(self) -> Iterator[tuple[int, StepTally]]:
        return ((step, tally) for step, tally in enumerate(self._tallies, start=1) if len(tally))
