"""When workflows are due in an open loop: times that do not depend on how fast they are served."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from loadgen.errors import BadLoad


class ArrivalKind(StrEnum):
    """The process by which workflows arrive."""

    CLOSED = "closed"
    """A fixed number at a time; each is due when an earlier one makes room."""
    POISSON = "poisson"
    GAMMA = "gamma"
    RAMP = "ramp"
    """Poisson with a rate that changes linearly, then stays."""
    TRACE = "trace"
    """The times of the trace that is replayed."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """An arrival process. ``rate`` is workflows a second, ``rate_to`` that at the end of the ramp.

    ``burstiness`` is the coefficient of variation of the gaps of ``gamma``: 1 is Poisson, larger
    comes in bursts. ``speed`` divides the times of a trace.
    """

    kind: ArrivalKind = ArrivalKind.CLOSED
    rate: float = 0.0
    burstiness: float = 1.0
    rate_to: float = 0.0
    ramp_s: float = 0.0
    speed: float = 1.0

    def __post_init__(self) -> None:
        timed = self.kind in (ArrivalKind.POISSON, ArrivalKind.GAMMA, ArrivalKind.RAMP)
        if timed and not self.rate > 0:
            raise BadLoad(f"{self.kind} arrivals need a rate above 0")
        if self.kind is ArrivalKind.GAMMA and not self.burstiness > 0:
            raise BadLoad("the burstiness must be above 0")
        if self.kind is ArrivalKind.RAMP and not (self.rate_to > 0 and self.ramp_s > 0):
            raise BadLoad("a ramp needs the rate that it leads to and its length, both above 0")
        if not self.speed > 0:
            raise BadLoad("the speed must be above 0")

    def due_times(self, rng: random.Random) -> Iterator[float]:
        """Endless and ascending; not for ``closed`` and ``trace``, whose times are elsewhere."""
        if self.kind is ArrivalKind.POISSON:
            return _summed(lambda: rng.expovariate(self.rate))
        if self.kind is ArrivalKind.GAMMA:
            shape = 1.0 / self.burstiness**2
            return _summed(lambda: rng.gammavariate(shape, 1.0 / (self.rate * shape)))
        if self.kind is ArrivalKind.RAMP:
            return self._ramp(rng)
        raise BadLoad(f"{self.kind} arrivals have no times of their own")

    def _ramp(self, rng: random.Random) -> Iterator[float]:
        """A unit Poisson process in the integral of the rate, mapped back to time."""
        slope = (self.rate_to - self.rate) / self.ramp_s
        at_end = (self.rate + self.rate_to) / 2 * self.ramp_s
        expected = 0.0
        while True:
            expected += rng.expovariate(1.0)
            if expected >= at_end:
                yield self.ramp_s + (expected - at_end) / self.rate_to
            elif slope == 0:
                yield expected / self.rate
            else:
                yield ((self.rate**2 + 2 * slope * expected) ** 0.5 - self.rate) / slope


def _summed(gap: Callable[[], float]) -> Iterator[float]:
    at_s = 0.0
    while True:
        at_s += gap()
        yield at_s
