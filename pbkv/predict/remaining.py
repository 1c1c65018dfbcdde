"""How many calls a workflow still makes, from the forecast of K steps and a hazard beyond them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RemainingCalls:
    """Mean and standard deviation of the number of remaining calls, each (B,)."""

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]


def remaining_calls(
    end_probabilities: NDArray[np.float32], hazard: NDArray[np.float32]
) -> RemainingCalls:
    """From the probability of END at each of K steps, (B, K), and the hazard beyond, (B,).

    With e_k the probability of END at step k given that the workflow still runs, and S the
    probability of surviving all K steps, P(R = k-1) = e_k prod_{j<k} (1 - e_j), and beyond it
    P(R = K + m) = S h (1-h)^m: a geometric tail of mean (1-h)/h and variance (1-h)/h^2.
    """
    ends = end_probabilities.astype(np.float64)
    steps = ends.shape[1]
    hazard = np.clip(hazard.astype(np.float64), 1e-3, 1.0)
    survives = np.cumprod(1.0 - ends, axis=1)
    before = np.concatenate([np.ones((len(ends), 1)), survives[:, :-1]], axis=1)
    probability = before * ends
    values = np.arange(steps, dtype=np.float64)
    tail_mean = steps + (1.0 - hazard) / hazard
    tail_square = tail_mean**2 + (1.0 - hazard) / hazard**2
    mean = probability @ values + survives[:, -1] * tail_mean
    square = probability @ values**2 + survives[:, -1] * tail_square
    return RemainingCalls(mean, np.sqrt(np.maximum(square - mean**2, 0.0)))
