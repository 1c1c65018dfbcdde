"""Two forecasters on the same calls: how much more often one is right, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pbkv.predict.dataset import MASKED

_Z95 = 1.96


@dataclass(frozen=True, slots=True)
class PairedStep:
    """One step of a paired comparison over ``forecasts`` calls; NaN where there are none.

    ``difference`` is the accuracy of the first less that of the second and ``low`` to ``high`` its
    95 % interval. ``same`` is the share of calls of which both named the same outcome first, and
    ``largest_gap`` the largest difference between two of their probabilities.
    """

    forecasts: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    same: float
    largest_gap: float


def paired_steps(
    first: NDArray[np.float32], second: NDArray[np.float32], targets: NDArray[np.int64]
) -> tuple[PairedStep, ...]:
    """Each step of two forecasts (N, K, V+1) of the same calls, against targets (N, K)."""
    return tuple(
        _paired(first[:, step], second[:, step], targets[:, step])
        for step in range(targets.shape[1])
    )


def _paired(
    first: NDArray[np.float32], second: NDArray[np.float32], targets: NDArray[np.int64]
) -> PairedStep:
    counted = targets != MASKED
    first, second, targets = first[counted], second[counted], targets[counted]
    total = len(targets)
    if total == 0:
        return PairedStep(0, *[math.nan] * 7)
    best, other = first.argmax(axis=1), second.argmax(axis=1)
    hits, others = best == targets, other == targets
    low, high = difference_interval(int((hits & ~others).sum()), int((others & ~hits).sum()), total)
    return PairedStep(
        total,
        float(hits.mean()),
        float(others.mean()),
        float(hits.mean() - others.mean()),
        low,
        high,
        float((best == other).mean()),
        float(np.abs(first - second).max()),
    )


def difference_interval(first_only: int, second_only: int, total: int) -> tuple[float, float]:
    """95 % interval of the difference of two shares of the same ``total`` trials.

    ``first_only`` trials were a success of the first alone. The interval of Agresti and Min (2005),
    half a trial added to each of the four kinds, so that it does not shrink to nothing where the
    two never differ.
    """
    first, second, trials = first_only + 0.5, second_only + 0.5, total + 2.0
    middle = (first - second) / trials
    half = _Z95 * math.sqrt(first + second - (first - second) ** 2 / trials) / trials
    return max(-1.0, middle - half), min(1.0, middle + half)
