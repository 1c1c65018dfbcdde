"""How often the forecasts in use named the agent that really came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pbkv.forecast import Forecast

WINDOW = 1_000
"""Forecasts per step that the accuracy is taken over."""


class LiveAccuracy:
    """Top-1 accuracy per step, over the last :data:`WINDOW` forecasts that came to their test.

    The forecast made after call n is tested at step k by call n + k, if the workflow makes it, and
    once by the end in the place of a call: the forecast is conditional on survival, and so is its
    test. Memory is ``steps`` forecasts per workflow, until it ends.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        # workflow -> call it was made after -> the likeliest agent per step, None for END
        self._made: dict[str, dict[int, tuple[str | None, ...]]] = {}
        self._hits: list[deque[bool]] = [deque(maxlen=WINDOW) for _ in range(steps)]
        self._num_hits = [0] * steps

    @property
    def num_workflows(self) -> int:
        return len(self._made)

    def made(self, forecast: Forecast, call: int) -> None:
        """``forecast`` is in use after call number ``call``; it replaces an earlier one of it."""
        outcomes = (*forecast.agents, None)
        best = forecast.step_probabilities[: self._steps].argmax(axis=1)
        self._made.setdefault(forecast.workflow_id, {})[call] = tuple(outcomes[i] for i in best)

    def happened(self, workflow_id: str, call: int, agent: str | None) -> None:
        """Call number ``call`` was one of ``agent``, or None: the end came instead."""
        made = self._made.get(workflow_id)
        if made is None:
            return
        for step in range(1, self._steps + 1):
            likeliest = made.get(call - step)
            if likeliest is not None and step <= len(likeliest):
                self._add(step - 1, likeliest[step - 1] == agent)
        for old in [made_after for made_after in made if made_after <= call - self._steps]:
            del made[old]
        if agent is None or not made:
            del self._made[workflow_id]

    def forget(self, workflow_id: str) -> None:
        """The workflow's forecasts will not be tested."""
        self._made.pop(workflow_id, None)

    def by_step(self) -> Iterator[tuple[int, float]]:
        """(k, accuracy at step k), for the steps that were tested at all."""
        for index, hits in enumerate(self._hits):
            if hits:
                yield index + 1, self._num_hits[index] / len(hits)

    def _add(self, index: int, hit: bool) -> None:
        hits = self._hits[index]
        if len(hits) == WINDOW:
            self._num_hits[index] -= hits[0]
        hits.append(hit)
        self._num_hits[index] += hit
