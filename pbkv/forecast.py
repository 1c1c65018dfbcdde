"""A forecast of the next agents of one workflow, and who makes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Forecast:
    """The distribution over the next ``K`` agents of one workflow (paper section 4.1).

    ``step_probabilities`` has shape (K, V+1), float32: row k-1 is the distribution at step k given
    that the workflow is still running before it, columns follow ``agents`` and END comes last.
    """

    workflow_id: str
    agents: tuple[str, ...]
    step_probabilities: NDArray[np.float32]
    made_at_s: float
    model_version: str

    def __post_init__(self) -> None:
        shape = self.step_probabilities.shape
        if len(shape) != 2 or shape[1] != len(self.agents) + 1:
            raise ValueError(
                f"step_probabilities has shape {shape}; expected (K, {len(self.agents) + 1})"
            )


class Predictor(Protocol):
    """Forecasts the next agents of a batch of workflows in one forward pass."""

    def forecast(
        self, prefixes: Sequence[Sequence[str]], hidden_states: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Distributions (B, K, V+1) for B prefixes of agent names and (B, D) hidden states."""
        ...
