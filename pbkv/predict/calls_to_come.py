"""How many calls come after one of an agent: the mean, learnt from the workflows that ended.

An agent that comes late in most workflows tells that the end is near, whatever the number of calls
so far. It is the naive estimate that a trained one is held against, and it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

WINDOW = 1_024
"""About how many of the last calls of an agent count."""


class CallsToCome:
    """Per agent, by its column in the vocabulary, the mean number of calls after its own."""

    def __init__(self, known: Iterable[tuple[int, float, float]] = ()) -> None:
        self._means = {column: (calls, mean) for column, calls, mean in known}

    def __iter__(self) -> Iterator[tuple[int, float, float]]:
        """Column, how many calls were seen (at most :data:`WINDOW`) and the mean after them."""
        for column, (calls, mean) in self._means.items():
            yield column, calls, mean

    def learn(self, workflow: Sequence[int]) -> None:
        """A workflow ended; its calls as columns, the first one first."""
        for to_come, column in enumerate(reversed(workflow)):
            seen, mean = self._means.get(column, (0.0, 0.0))
            seen = min(seen + 1.0, float(WINDOW))
            self._means[column] = (seen, mean + (to_come - mean) / seen)

    def after(self, column: int) -> float:
        """Calls to come after one of that agent, NaN if no workflow with one ended yet."""
        return self._means.get(column, (0.0, math.nan))[1]
