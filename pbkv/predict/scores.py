"""Accuracy and calibration of forecasts, per step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pbkv.predict.dataset import MASKED

NUM_BINS = 10


@dataclass(frozen=True, slots=True)
class StepScore:
    """How forecasts did at one step; ``accuracy`` is NaN if no workflow got so far.

    ``accuracy`` is that of the likeliest outcome, END among them. ``reliability`` holds per bin of
    confidence (mean confidence, accuracy, forecasts), for the bins that are not empty, and
    ``calibration_error`` is the mean gap between the first two, weighted by the third.
    """

    accuracy: float
    calibration_error: float
    reliability: tuple[tuple[float, float, int], ...]


def score_steps(
    probabilities: NDArray[np.float32], targets: NDArray[np.int64]
) -> tuple[StepScore, ...]:
    """Scores of each step of (N, K, V+1) against targets (N, K); masked targets do not count."""
    return tuple(
        _score(probabilities[:, step], targets[:, step]) for step in range(targets.shape[1])
    )


def _score(probabilities: NDArray[np.float32], targets: NDArray[np.int64]) -> StepScore:
    counted = targets != MASKED
    probabilities, targets = probabilities[counted], targets[counted]
    hits = probabilities.argmax(axis=1) == targets
    confidence = probabilities.max(axis=1).astype(np.float64)
    bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    reliability = []
    for index in range(NUM_BINS):
        inside = bins == index
        if inside.any():
            mean, accuracy = float(confidence[inside].mean()), float(hits[inside].mean())
            reliability.append((mean, accuracy, int(inside.sum())))
    error = sum(abs(mean - accuracy) * count for mean, accuracy, count in reliability)
    accuracy = float(hits.mean()) if len(hits) else math.nan
    return StepScore(accuracy, error / max(1, len(hits)), tuple(reliability))
