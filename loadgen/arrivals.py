"""When workflows are due in an open loop: times that do not depend on how fast they are served."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from loadgen.errors import BadLoad

# The shape of the distribution is the inverse of its square, which must stay a number.
_MAX_BURSTINESS = 100


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
        if timed and not _positive(self.rate):
            raise BadLoad(f"{self.kind} arrivals need a rate above 0")
        if self.kind is ArrivalKind.GAMMA and not 0 < self.burstiness <= _MAX_BURSTINESS:
            raise BadLoad(f"the burstiness must be above 0, and {_MAX_BURSTINESS} at most")
        if self.kind is ArrivalKind.RAMP and not (_positive(self.rate_to, self.ramp_s)):
            raise BadLoad("a ramp needs the rate that it leads to and its length, both above 0")
        if not _positive(self.speed):
            raise BadLoad("the speed must be above 0")

    def describe(self) -> str:
        """When workflows came, for the reader of a report."""
        if self.kind is ArrivalKind.POISSON:
            return f"arriving at random, {self.rate:g} a second"
        if self.kind is ArrivalKind.GAMMA:
            return f"arriving in bursts ({self.burstiness:g}), {self.rate:g} a second"
        if self.kind is ArrivalKind.RAMP:
            return f"arriving at random, {self.rate:g} and in the end {self.rate_to:g} a second"
        if self.kind is ArrivalKind.TRACE:
            return f"arriving as in the trace, {self.speed:g} times as fast"
        return "one after the other"

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


def _positive(*values: float) -> bool:
    return all(0 < value < math.inf for value in values)


def _summed(gap: Callable[[], float]) -> Iterator[float]:
    at_s = 0.0
    while True:
        at_s += gap()
        yield at_s
