"""Trains the families of :mod:`pbkv.predict.families` on workflows of a running cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pbkv.errors import InvalidTrace
from pbkv.hidden_source import POST_NORM
from pbkv.predict.dataset import Examples, make_examples, transition_matrix
from pbkv.predict.families import make_network
from pbkv.predict.network import Shape
from pbkv.predict.network_checkpoint import save_network
from pbkv.predict.network_predictor import NetworkPredictor
from pbkv.predict.training import TrainingPlan, train_network
from pbkv.predict.vocabulary import Vocabulary
from pbkv.trace import WorkflowTrace
from services.training.trainer import Score, score_predictor

_VALIDATION_SHARE = 10


class NetworkTrainer:
    """One variant of one family; a checkpoint is a folder.

    It learns from hidden states where the workflows have them, and from the agents alone where no
    call has one. The newest tenth of the workflows decides when to stop.
    """

    suffix = ""

    def __init__(
        self,
        family: str,
        variant: str = "",
        *,
        steps: int = 3,
        seed: int = 0,
        plan: TrainingPlan | None = None,
    ) -> None:
        make_network(family, variant, Shape(2, steps, 1))  # An unknown name fails here.
        self._family = family
        self._variant = variant
        self._steps = steps
        self._seed = seed
        self._plan = plan

    def fit(self, workflows: Sequence[WorkflowTrace], checkpoint: Path) -> None:
        workflows = [workflow for workflow in workflows if workflow.ended and workflow.served]
        held = max(1, len(workflows) // _VALIDATION_SHARE)
        if len(workflows) <= held:
            raise InvalidTrace(f"{len(workflows)} finished workflows are too few to learn from")
        hidden_size, source = _hidden_states(workflows)
        traces = [workflow.agents for workflow in workflows]
        vocabulary = Vocabulary(agent for trace in traces for agent in trace)

        def examples(part: slice) -> Examples:
            return _examples(workflows[part], vocabulary, hidden_size, self._steps)

        torch.manual_seed(self._seed)
        shape = Shape(len(vocabulary), self._steps, hidden_size)
        network = make_network(self._family, self._variant, shape)
        train_network(
            network,
            examples(slice(0, -held)),
            examples(slice(-held, None)),
            transition_matrix(traces, vocabulary),
            seed=self._seed,
            plan=self._plan,
        )
        save_network(checkpoint, network, self._family, self._variant, vocabulary, source)

    def score(self, checkpoint: Path, workflows: Sequence[WorkflowTrace]) -> Score:
        predictor = NetworkPredictor.load(checkpoint, steps=self._steps)
        return score_predictor(predictor, workflows, self._steps)


def _hidden_states(workflows: Sequence[WorkflowTrace]) -> tuple[int, str]:
    """Length and source of the hidden states, 0 without any.

    Raises :class:`InvalidTrace` for two of either.
    """
    found = {
        (len(call.hidden_state), call.hidden_source)
        for workflow in workflows
        for call in workflow.served
        if call.hidden_state is not None
    }
    if len({size for size, _ in found}) > 1:
        sizes = " and ".join(str(size) for size in sorted({size for size, _ in found}))
        raise InvalidTrace(f"hidden states of {sizes} numbers: they are of different models")
    if len(found) > 1:
        sources = " and ".join(sorted(source for _, source in found))
        raise InvalidTrace(f"hidden states of {sources}: train on those of one")
    return found.pop() if found else (0, POST_NORM)


def _examples(
    workflows: Sequence[WorkflowTrace], vocabulary: Vocabulary, hidden_size: int, steps: int
) -> Examples:
    traces = [workflow.agents for workflow in workflows]
    calls = [call for workflow in workflows for call in workflow.served]
    found: NDArray[np.bool_] = np.array([call.hidden_state is not None for call in calls])
    hidden = np.zeros((len(calls), hidden_size), dtype=np.float32)
    for row, call in enumerate(calls):
        if call.hidden_state is not None:
            hidden[row] = call.hidden_state
    made = make_examples(traces, None, vocabulary, steps=steps)
    prefixes = replace(made.prefixes, hidden=hidden, has_hidden=found)
    return replace(made, prefixes=prefixes)
