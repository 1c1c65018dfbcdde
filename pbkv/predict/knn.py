"""k nearest neighbours among the hidden states of the training set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pbkv.predict.dataset import MASKED, Examples, Prefixes

_CHUNK = 512


class NearestNeighbours:
    """Cosine similarity of standardised hidden states; the neighbours vote with equal weight.

    It has nothing to say where there is no hidden state: then it answers with the distribution of
    the training targets.
    """

    def __init__(self, neighbours: int, agents: int, steps: int) -> None:
        self._neighbours = neighbours
        self._agents = agents
        self._steps = steps

    @property
    def num_parameters(self) -> int:
        """Numbers it keeps: all training states."""
        return int(self._states.size)

    def fit(self, examples: Examples) -> None:
        hidden = examples.prefixes.hidden
        self._mean = hidden.mean(axis=0)
        self._scale = 1.0 / np.maximum(hidden.std(axis=0), 1e-4)
        self._states = self._unit(hidden)
        # (N, K, V+1): a masked target votes for nothing.
        votes = np.zeros((len(examples), self._steps, self._agents + 1), dtype=np.float32)
        rows, steps = np.nonzero(examples.targets != MASKED)
        votes[rows, steps, examples.targets[rows, steps]] = 1.0
        self._votes = votes
        # A step that no trace reached keeps the uniform distribution.
        total = votes.sum(axis=0) + 1e-6
        self._prior = total / total.sum(axis=1, keepdims=True)

    def probabilities(self, prefixes: Prefixes) -> NDArray[np.float32]:
        """Distributions (N, K, V+1)."""
        queries = self._unit(prefixes.hidden)
        answers = np.empty((len(prefixes), *self._prior.shape), dtype=np.float32)
        for start in range(0, len(prefixes), _CHUNK):
            rows = slice(start, start + _CHUNK)
            similarity = queries[rows] @ self._states.T
            nearest = np.argpartition(-similarity, self._neighbours, axis=1)[:, : self._neighbours]
            # The prior breaks ties, and stands in where all neighbours ended before that step.
            votes = self._votes[nearest].sum(axis=1) + 1e-3 * self._prior
            answers[rows] = votes / votes.sum(axis=2, keepdims=True)
        answers[~prefixes.has_hidden] = self._prior
        return answers

    def _unit(self, hidden: NDArray[np.float32]) -> NDArray[np.float32]:
        standard = ((hidden - self._mean) * self._scale).astype(np.float32)
        unit: NDArray[np.float32] = standard / np.maximum(
            np.linalg.norm(standard, axis=1, keepdims=True), 1e-6
        )
        return unit
