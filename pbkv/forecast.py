"""A forecast of the next agents of one workflow, and who makes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Forecast:
    """The distribution over the next ``K`` agents of one workflow (paper section 4.1).

    ``step_probabilities`` has shape (K, V+1), float32: row k-1 is the distribution at step k given
    that the workflow is still running before it, columns follow ``agents`` and END comes last.
    ``remaining_calls`` is the expected number of calls still to come, beyond K too; None from a
    predictor that does not look so far.
    """

    workflow_id: str
    agents: tuple[str, ...]
    step_probabilities: NDArray[np.float32]
    made_at_s: float
    model_version: str
    remaining_calls: float | None = None

    def __post_init__(self) -> None:
        shape = self.step_probabilities.shape
        if len(shape) != 2 or shape[1] != len(self.agents) + 1:
            raise ValueError(
                f"step_probabilities has shape {shape}; expected (K, {len(self.agents) + 1})"
            )


class Predictor(Protocol):
    """Forecasts the next agents of a batch of workflows in one forward pass.

    It is used from one thread, which is not the one that made it and not the scheduler's: a
    predictor on a GPU enters a stream of its own in :meth:`forecast`, so that it overlaps with the
    engine's kernels.
    """

    @property
    def version(self) -> str:
        """Which model this is, for :attr:`Forecast.model_version`."""
        ...

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that the columns of the last :meth:`forecast` stand for."""
        ...

    @property
    def wants_hidden_states(self) -> bool:
        """Whether the engine should capture hidden states for it."""
        ...

    def forecast(
        self, prefixes: Sequence[Sequence[str]], hidden_states: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Distributions (B, K, V+1) for B prefixes of agent names, each with at least one.

        ``hidden_states`` is (B, D), the state of the last prompt token of the last call of each
        prefix, post-norm unless the engine is told otherwise, or (B, 0) where there is none: a call
        that waits for its prefill, or an engine that cannot capture it. Agents never seen before
        are no error.
        """
        ...


@runtime_checkable
class OnlinePredictor(Protocol):
    """A predictor that also learns from what the engine serves."""

    def observe(self, prefix: Sequence[str], following: str | None) -> None:
        """After the calls of ``prefix`` came a call of ``following``, or None: the end."""
        ...


@runtime_checkable
class WorkflowPredictor(Protocol):
    """A predictor that wants to know which workflow each prefix is of, such as one that looks it up
    in an application that plans ahead. Where it is one, it is asked by this method."""

    def forecast_workflows(
        self,
        workflow_ids: Sequence[str],
        prefixes: Sequence[Sequence[str]],
        hidden_states: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """As :meth:`Predictor.forecast`, of the workflows of these ids."""
        ...


@runtime_checkable
class RemainingCallsPredictor(Protocol):
    """A predictor that also tells how long workflows go on, beyond the K steps."""

    @property
    def remaining_calls(self) -> NDArray[np.float32]:
        """Expected number of calls still to come, (B,), of the prefixes of the last forecast; NaN
        of one that the predictor cannot tell of."""
        ...
