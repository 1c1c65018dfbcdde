"""When a draining replica may end: its workflows are over, or it has waited long enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DrainState(StrEnum):
    """What a drain comes to at one look."""

    WAITING = "waiting"
    DONE = "done"
    """Nothing would be lost by ending now."""
    GIVEN_UP = "given up"
    """The limit passed; what still runs is lost."""


@dataclass(slots=True)
class Drain:
    """One drain, begun at ``began_s``. Every time is an argument, on one clock.

    A replica is done when it was seen idle without a break for ``settle_s``: routers learn a
    little late that it drains, so a single idle look may be followed by one more workflow.
    """

    began_s: float
    limit_s: float
    settle_s: float
    _idle_since_s: float | None = None

    def look(self, now_s: float, busy: bool) -> DrainState:
        """Take note of whether the engine is busy at ``now_s``."""
        if busy:
            self._idle_since_s = None
        elif self._idle_since_s is None:
            self._idle_since_s = now_s
        if self._idle_since_s is not None and now_s - self._idle_since_s >= self.settle_s:
            return DrainState.DONE
        if now_s - self.began_s >= self.limit_s:
            return DrainState.GIVEN_UP
        return DrainState.WAITING
