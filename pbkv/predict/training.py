"""Training of one network on examples: minibatches, early stopping, a fixed seed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pbkv.predict.dataset import MASKED, Examples
from pbkv.predict.network import Batch, Network, Outputs
from pbkv.predict.vocabulary import UNKNOWN_COLUMN


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How a network is trained; the same for every family.

    ``hidden_absent`` is the share of examples that lose their hidden state in each epoch, so that
    the network also answers without one; ``agent_unknown`` is the share of calls that are made
    unknown agents for the same reason. ``tail_weight`` weighs the loss of the remaining calls.
    """

    epochs: int = 60
    patience: int = 20
    batch_size: int = 512
    learning_rate: float = 2e-3
    weight_decay: float = 0.05
    hidden_absent: float = 0.05
    agent_unknown: float = 0.01
    tail_weight: float = 0.1


Progress = Callable[[int, float], None]
"""Receives the epoch, from 1 on, and the validation loss after it."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What the run came to: the weights in the network are those of ``best_epoch``."""

    epochs: int
    best_epoch: int
    validation_loss: float


def train_network(
    network: Network,
    training: Examples,
    validation: Examples,
    transitions: NDArray[np.float32],
    *,
    seed: int,
    plan: TrainingPlan | None = None,
    progress: Progress = lambda epoch, loss: None,
) -> TrainingResult:
    """Train ``network`` in place and leave it with the weights of the best epoch.

    Everything random comes from ``seed``, but for the initial weights, which the network has.
    """
    plan = plan or TrainingPlan()
    with _deterministic():
        return _train(network, training, validation, transitions, seed, plan, progress)


def _train(
    network: Network,
    training: Examples,
    validation: Examples,
    transitions: NDArray[np.float32],
    seed: int,
    plan: TrainingPlan,
    progress: Progress,
) -> TrainingResult:
    rng = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)  # Dropout has no generator of its own.
    network.fit_inputs(training.prefixes, transitions)
    batch, targets, remaining = _tensors(training)
    held_batch, held_targets, _ = _tensors(validation)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, plan.epochs)
    best_loss, best_epoch, best_weights = float("inf"), 0, copy.deepcopy(network.state_dict())
    epoch = 0
    for epoch in range(1, plan.epochs + 1):
        network.train()
        for rows in torch.randperm(len(targets), generator=rng).split(plan.batch_size):
            outputs = network(_blurred(batch.rows(rows), network.shape.agents, plan, rng))
            loss = forecast_loss(outputs, targets[rows])
            loss = loss + plan.tail_weight * tail_loss(outputs, remaining[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        network.eval()
        with torch.inference_mode():
            outputs = network(held_batch)
            held_loss = float(forecast_loss(outputs, held_targets))
        progress(epoch, held_loss)
        if held_loss < best_loss:
            best_loss, best_epoch = held_loss, epoch
            best_weights = copy.deepcopy(network.state_dict())
        elif epoch - best_epoch >= plan.patience:
            break
    network.load_state_dict(best_weights)
    network.eval()
    return TrainingResult(epoch, best_epoch, best_loss)


@contextmanager
def _deterministic() -> Iterator[None]:
    """Sums of gradients in a fixed order: with several threads it is else that of their arrival."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def forecast_loss(outputs: Outputs, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over all steps; what comes after END is masked."""
    logits = outputs.logits.flatten(0, 1)
    return nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=MASKED)


def tail_loss(outputs: Outputs, remaining: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihood of the calls beyond step K, geometric with the hazard of ``tail``.

    With h the hazard and m = remaining - K the calls beyond the forecast:
    -log h - m log(1 - h), over the workflows that get so far.
    """
    beyond = remaining - outputs.logits.shape[1]
    reached = beyond >= 0
    if not bool(reached.any()):
        return outputs.tail.sum() * 0.0
    tail = outputs.tail[reached]
    ends = nn.functional.logsigmoid(tail)
    goes_on = nn.functional.logsigmoid(-tail)
    return -(ends + beyond[reached] * goes_on).mean()


def _blurred(batch: Batch, agents: int, plan: TrainingPlan, rng: torch.Generator) -> Batch:
    """``batch`` with some hidden states and some agents hidden."""
    seen = torch.rand(batch.has_hidden.shape, generator=rng) >= plan.hidden_absent
    unknown = torch.rand(batch.calls.shape, generator=rng) < plan.agent_unknown
    return batch._replace(
        has_hidden=batch.has_hidden * seen,
        calls=torch.where(unknown & (batch.calls < agents), UNKNOWN_COLUMN, batch.calls),
    )


def _tensors(examples: Examples) -> tuple[Batch, torch.Tensor, torch.Tensor]:
    return (
        Batch.of(examples.prefixes),
        torch.from_numpy(examples.targets),
        torch.from_numpy(examples.remaining),
    )
