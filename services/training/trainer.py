"""What learning from traces takes of a predictor's family: to fit one, and to judge one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pbkv.forecast import Forecast, Predictor
from pbkv.predict import MarkovPredictor
from pbkv.predict.accuracy import LiveAccuracy
from pbkv.trace import WorkflowTrace


@dataclass(frozen=True, slots=True)
class Score:
    """How good forecasts were, per step ahead from 1 on; steps that no workflow tested are left
    out at the end.
    """

    accuracy: tuple[float, ...]
    calibration_error: tuple[float, ...]

    @property
    def mean_accuracy(self) -> float:
        """What checkpoints are compared by; 0 where nothing was tested."""
        return sum(self.accuracy) / len(self.accuracy) if self.accuracy else 0.0


class Trainer(Protocol):
    """One family. ``suffix`` ends the name of its checkpoints, "" for a folder."""

    @property
    def suffix(self) -> str: ...

    def fit(self, workflows: Sequence[WorkflowTrace], checkpoint: Path) -> None:
        """Learn from ``workflows``, oldest first, and write a checkpoint.

        Raises :class:`pbkv.errors.PbkvError` for workflows it cannot learn from.
        """
        ...

    def score(self, checkpoint: Path, workflows: Sequence[WorkflowTrace]) -> Score:
        """Judge a checkpoint. Raises :class:`pbkv.errors.InvalidCheckpoint`."""
        ...


class MarkovTrainer:
    """Counts, see :class:`pbkv.predict.MarkovPredictor`."""

    suffix = ".json"

    def __init__(self, *, steps: int = 3, order: int = 3) -> None:
        self._steps = steps
        self._order = order

    def fit(self, workflows: Sequence[WorkflowTrace], checkpoint: Path) -> None:
        predictor = MarkovPredictor(self._order, steps=self._steps)
        for workflow in workflows:
            for made, agent in enumerate(workflow.agents):
                predictor.observe(workflow.agents[:made], agent)
            if workflow.ended:
                predictor.observe(workflow.agents, None)
        predictor.save(checkpoint)

    def score(self, checkpoint: Path, workflows: Sequence[WorkflowTrace]) -> Score:
        return score_predictor(
            MarkovPredictor.load(checkpoint, steps=self._steps), workflows, self._steps
        )


def score_predictor(predictor: Predictor, workflows: Sequence[WorkflowTrace], steps: int) -> Score:
    """Test every forecast that ``predictor`` makes of ``workflows``, as a live engine does.

    A predictor that wants hidden states gets those of the calls that have one, and none for others.
    """
    record = LiveAccuracy(steps, window=None)
    for workflow in workflows:
        for call, forecast in enumerate(_forecasts(predictor, workflow), start=1):
            record.happened(workflow.workflow_id, call, workflow.agents[call - 1])
            record.made(forecast, call)
        if workflow.ended:
            record.happened(workflow.workflow_id, len(workflow.agents) + 1, None)
        record.forget(workflow.workflow_id)
    return Score(
        tuple(accuracy for _, accuracy in record.by_step()),
        tuple(error for _, error in record.calibration_by_step()),
    )


def _forecasts(predictor: Predictor, workflow: WorkflowTrace) -> list[Forecast]:
    """The forecast after each call."""
    agents = workflow.agents
    states = {
        index: call.hidden_state
        for index, call in enumerate(workflow.served)
        if predictor.wants_hidden_states and call.hidden_state is not None
    }
    blind = [index for index in range(len(agents)) if index not in states]
    batches = [(blind, np.empty((len(blind), 0), dtype=np.float32))] if blind else []
    if states:
        batches.append((list(states), np.stack(list(states.values()))))
    rows: dict[int, NDArray[np.float32]] = {}
    for chosen, hidden_states in batches:
        prefixes = [agents[: index + 1] for index in chosen]
        rows.update(zip(chosen, predictor.forecast(prefixes, hidden_states), strict=True))
    return [
        Forecast(workflow.workflow_id, predictor.agents, rows[i], 0.0, predictor.version)
        for i in range(len(agents))
    ]
