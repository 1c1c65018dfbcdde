"""How long workflows usually take, and how many calls they make: the scale of queue weights.

An engine serves minutes-long agents on one cluster and seconds-long ones on another, so what a
cached prompt or a call more is worth in the queue is told in usual workflows, not in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 64
"""About how many of the last workflows count."""

LEAST_SHARE_LEFT = 0.15
"""Of the usual number of calls, what a workflow is taken to have ahead of it however many it has
made: one that went past the usual number is not over yet."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A usual workflow: from its first call to its end in seconds, and the calls it makes."""

    duration_s: float
    calls: float

    def calls_left(self, calls_made: int) -> float:
        """Calls expected of a workflow that has made so many."""
        return max(self.calls - calls_made, LEAST_SHARE_LEFT * self.calls)


class WorkflowPace:
    """Means over about the last :data:`WINDOW` workflows that ended.

    Before the first one ended, the best that is known are bounds from below: the time since the
    first one started, and the most calls that one has made.
    """

    def __init__(self) -> None:
        self._ended = 0
        self._duration_s = 0.0
        self._calls = 0.0
        self._first_started_s: float | None = None
        self._most_calls = 1

    def called(self, calls: int, at_s: float) -> None:
        """Some workflow made its call number ``calls``."""
        if self._first_started_s is None:
            self._first_started_s = at_s
        self._most_calls = max(self._most_calls, calls)

    def ended(self, duration_s: float, calls: int) -> None:
        """A workflow ended. One that never called tells nothing."""
        if calls < 1:
            return
        self._ended += 1
        share = 1.0 / min(self._ended, WINDOW)
        self._duration_s += share * (max(0.0, duration_s) - self._duration_s)
        self._calls += share * (calls - self._calls)

    def usual(self, now_s: float) -> Pace:
        """What a workflow usually is, as far as is known at ``now_s``."""
        if self._ended:
            return Pace(self._duration_s, self._calls)
        since = 0.0 if self._first_started_s is None else now_s - self._first_started_s
        return Pace(max(0.0, since), float(self._most_calls))
