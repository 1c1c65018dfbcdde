"""The lookahead reuse score of nodes, kept by change (paper 4.2.2)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pbkv.forecast import Forecast
from pbkv.policy.access_model import AccessModel


def survival(step_probabilities: NDArray[np.float32]) -> NDArray[np.float64]:
    """s^(k) = prod over j < k of (1 - p_END^(j)), shape (K,): the chance to reach step k."""
    end = step_probabilities[:, -1].astype(np.float64)
    return np.concatenate(([1.0], np.cumprod(1.0 - end)[:-1]))


def agent_weights(forecast: Forecast, gamma: float, steps: int) -> dict[str, float]:
    """Per agent, sum over k <= ``steps`` of gamma^(k-1) * s^(k) * P^(k)(agent).

    Eq. (2) is linear in A_w(c), so a workflow's part of Score(c) is the inner product of A_w(c)
    with these weights, which are computed once per forecast and not once per node.
    """
    probabilities = forecast.step_probabilities[:steps]
    factors = survival(probabilities) * gamma ** np.arange(len(probabilities))
    weights = factors @ probabilities[:, :-1].astype(np.float64)
    return dict(zip(forecast.agents, weights.tolist(), strict=True))


def noisy(step_probabilities: NDArray[np.float32], noise: float) -> NDArray[np.float32]:
    """Eq. (5): (1 - lambda) * P + lambda * U, with U uniform over the agents and END."""
    columns = step_probabilities.shape[1]
    mixed: NDArray[np.float32] = (1.0 - noise) * step_probabilities + noise / columns
    return mixed.astype(np.float32)


class WorkflowGain:
    """What one workflow's forecast is worth to a node, by the agents that accessed the node.

    Nodes with the same agent set have the same gain; a workflow has few distinct sets, so a new
    forecast costs one inner product per set and one addition per node.
    """

    __slots__ = ("_access", "_application", "_gains", "weights")

    def __init__(self, application: str, weights: Mapping[str, float], access: AccessModel) -> None:
        self._application = application
        self._access = access
        self._gains: dict[frozenset[str], float] = {}
        self.weights = weights

    def of(self, agents: frozenset[str]) -> float:
        """A_w(c) . weights for a node that ``agents`` accessed.

        The first answer for a set stays: what was added to a node can be taken off again exactly,
        although a learned access model moves on meanwhile.
        """
        gain = self._gains.get(agents)
        if gain is None:
            touch = self._access.touch(self._application, agents)
            gain = sum(touch[agent] * self.weights.get(agent, 0.0) for agent in sorted(touch))
            self._gains[agents] = gain
        return gain


def application_of(workflow_id: str) -> str:
    """The application a workflow belongs to: its tenant, the part before the first colon."""
    return workflow_id.partition(":")[0] if ":" in workflow_id else ""
