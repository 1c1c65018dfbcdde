"""Simulated time, on SimPy's event queue."""

from __future__ import annotations

from collections.abc import Callable

from simpy import Environment
from simpy.core import EmptySchedule
from simpy.events import NORMAL, Event, EventPriority

_LAST = EventPriority(NORMAL + 1)


class Clock:
    """Does what is due in order of time; what is due at the same time in the order it was planned.

    Actions are plain callbacks: a process of SimPy is a generator and costs twice as much a turn.
    """

    def __init__(self) -> None:
        self._environment = Environment()

    @property
    def now_s(self) -> float:
        """Seconds since the simulation began."""
        return float(self._environment.now)

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Plan an action; one whose time is over is due now."""
        delay_s = max(0.0, time_s - self.now_s)
        self._environment.schedule(_Due(self._environment, action), NORMAL, delay_s)

    def when_settled(self, action: Callable[[], None]) -> None:
        """Plan an action for when all else that is due now, or becomes so, has happened."""
        self._environment.schedule(_Due(self._environment, action), _LAST)

    def step(self) -> bool:
        """Go to the next action and do it; False if there is none."""
        try:
            self._environment.step()
        except EmptySchedule:
            return False
        return True


class _Due(Event):
    """An event that succeeds when its time has come, as SimPy's own time-outs."""

    def __init__(self, environment: Environment, action: Callable[[], None]) -> None:
        super().__init__(environment)
        self._ok = True
        self._value = None
        self.callbacks.append(lambda _event: action())
