"""A running average that follows slowly."""

from __future__ import annotations


class RunningAverage:
    """Exponentially weighted mean; None before the first value."""

    __slots__ = ("_weight", "value")

    def __init__(self, weight: float = 0.1) -> None:
        self._weight = weight
        self.value: float | None = None

    def add(self, sample: float) -> None:
        """Take one more sample in."""
        if self.value is None:
            self.value = sample
        else:
            self.value += self._weight * (sample - self.value)
