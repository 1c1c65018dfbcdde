"""Forecasts in simulated time: made at every call, in use from the next step on."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pbkv.forecast import Forecast, OnlinePredictor, Predictor, RemainingCallsPredictor
from pbkv.policy import EvictionPolicy
from pbkv.policy.score import noisy
from pbkv.workflow import Workflow
from pbkv.workload import ScriptedWorkflow

_NO_STATES = np.empty((1, 0), dtype=np.float32)


class SimulatedForecaster:
    """Listens to the workflows of one policy and hands it forecasts of ``predictor``."""

    def __init__(self, policy: EvictionPolicy, predictor: Predictor, noise: float) -> None:
        self._policy = policy
        self._predictor = predictor
        self._learner = predictor if isinstance(predictor, OnlinePredictor) else None
        self._counter = predictor if isinstance(predictor, RemainingCallsPredictor) else None
        self._noise = noise
        self._due: list[Workflow] = []

    def on_call(self, workflow: Workflow) -> None:
        history = tuple(workflow.history)
        if self._learner is not None:
            self._learner.observe(history[:-1], history[-1])
        self._due.append(workflow)

    def on_retire(self, workflow: Workflow) -> None:
        if self._learner is not None and workflow.history:
            self._learner.observe(tuple(workflow.history), None)

    def deliver(self, now_s: float) -> None:
        """Give the policy the forecasts that are due; not from inside an event."""
        due, self._due = self._due, []
        for workflow in due:
            if workflow.active:
                rows, remaining = self._predict(workflow)
                self._policy.on_forecast(
                    Forecast(
                        workflow.workflow_id,
                        self._predictor.agents,
                        noisy(rows, self._noise) if self._noise else rows,
                        now_s,
                        self._predictor.version,
                        remaining,
                    )
                )

    def _predict(self, workflow: Workflow) -> tuple[NDArray[np.float32], float | None]:
        """Distributions (K, V+1), and the calls still to come if the predictor tells."""
        predictor = self._predictor
        if isinstance(predictor, ScriptPredictor):
            return (
                predictor.of_workflow(workflow.workflow_id, workflow.calls),
                predictor.remaining_calls(workflow.workflow_id, workflow.calls),
            )
        rows = predictor.forecast([tuple(workflow.history)], _NO_STATES)[0]
        if self._counter is None:
            return rows, None
        remaining = float(self._counter.remaining_calls[0])
        return rows, None if math.isnan(remaining) else remaining


class ScriptPredictor:
    """Knows the scripts: ``oracle-predictor``.

    With ``accuracy`` below 1 for a step, that step names the agent that really comes with that
    probability and else one drawn by how often agents are called; the distribution says so. Then
    it stands for a trained predictor of known accuracy.
    """

    version = "script"
    wants_hidden_states = False

    def __init__(
        self,
        scripts: Iterable[ScriptedWorkflow],
        *,
        steps: int,
        accuracy: Sequence[float] = (),
        seed: int = 0,
    ) -> None:
        self._agents_of: Mapping[str, tuple[str, ...]] = {
            script.workflow_id: tuple(call.agent for call in script.calls) for script in scripts
        }
        counts = Counter(agent for agents in self._agents_of.values() for agent in agents)
        self.agents = tuple(sorted(counts))
        total = sum(counts.values()) + len(self._agents_of)
        shares = [*(counts[agent] / total for agent in self.agents), len(self._agents_of) / total]
        self._shares = np.array(shares, dtype=np.float32)
        self._columns = {agent: column for column, agent in enumerate(self.agents)}
        self._steps = steps
        self._accuracy = (*accuracy, *([accuracy[-1] if accuracy else 1.0] * steps))[:steps]
        self._seed = seed

    def forecast(
        self, prefixes: Sequence[Sequence[str]], hidden_states: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Refuses: a script is known by its workflow and not by its history."""
        raise TypeError("a script predictor answers of_workflow")

    def of_workflow(self, workflow_id: str, calls: int) -> NDArray[np.float32]:
        """Distributions (K, V+1) after the first ``calls`` calls of a workflow."""
        agents = self._agents_of[workflow_id]
        rows = np.zeros((self._steps, len(self.agents) + 1), dtype=np.float32)
        for step in range(self._steps):
            at = calls + step
            column = self._columns[agents[at]] if at < len(agents) else -1
            accuracy = self._accuracy[step]
            if accuracy < 1.0:
                rng = random.Random(f"{self._seed}/{workflow_id}/{calls}/{step}")
                if rng.random() >= accuracy:
                    column = rng.choices(range(len(self._shares)), self._shares.tolist())[0]
                rows[step] = (1.0 - accuracy) * self._shares
            rows[step, column] += accuracy
        return rows

    def remaining_calls(self, workflow_id: str, calls: int) -> float | None:
        """Calls still to come after the first ``calls``; None of one that is not always right."""
        if min(self._accuracy) < 1.0:
            return None
        return float(len(self._agents_of[workflow_id]) - calls)
