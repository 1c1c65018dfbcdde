"""What all trained families share: input, output, and how a hidden state enters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pbkv.predict.dataset import Prefixes
from pbkv.predict.dropout import ByteDropout


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes that a network is built for: V agents, K steps, D of the hidden state (0: none)."""

    agents: int
    steps: int
    hidden_size: int

    @property
    def outputs(self) -> int:
        """Numbers that :func:`split_outputs` takes: K (V+1) logits and one for the tail."""
        return self.steps * (self.agents + 1) + 1


class Batch(NamedTuple):
    """Tensors of :class:`Prefixes`; ``has_hidden`` is (B, 1) of 0 and 1."""

    calls: torch.Tensor
    counts: torch.Tensor
    hidden: torch.Tensor
    has_hidden: torch.Tensor

    @classmethod
    def of(cls, prefixes: Prefixes) -> Batch:
        return cls(
            torch.from_numpy(prefixes.calls),
            torch.from_numpy(prefixes.counts),
            torch.from_numpy(np.ascontiguousarray(prefixes.hidden)),
            torch.from_numpy(prefixes.has_hidden.astype(np.float32))[:, None],
        )

    def rows(self, index: torch.Tensor) -> Batch:
        return Batch(*(tensor[index] for tensor in self))


class Outputs(NamedTuple):
    """``logits`` (B, K, V+1), END last, and ``tail`` (B,): the logit of ending at each later step.

    Row k is the distribution at step k given that the workflow still runs before it.
    """

    logits: torch.Tensor
    tail: torch.Tensor


def split_outputs(raw: torch.Tensor, shape: Shape) -> Outputs:
    """The last layer of a network, (B, :attr:`Shape.outputs`), as its two outputs."""
    logits = raw[:, :-1].reshape(len(raw), shape.steps, shape.agents + 1)
    return Outputs(logits, raw[:, -1])


class Network(nn.Module):
    """Base of the trained families: :meth:`forward` takes a :class:`Batch` to :class:`Outputs`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def fit_inputs(self, prefixes: Prefixes, transitions: NDArray[np.float32]) -> None:
        """Take what is estimated from the training traces and not learnt by gradient."""
        for module in self.modules():
            if isinstance(module, HiddenInput):
                module.fit(prefixes)

    def forward(self, batch: Batch) -> Outputs:
        raise NotImplementedError


class HiddenInput(nn.Module):
    """h_txt = ReLU(W_t x) of section 4.1, with x standardised by the training set.

    Where there is no hidden state, a learnt vector takes the place of W_t x; in training a share of
    the examples loses its state, so that the vector is learnt.
    """

    def __init__(self, hidden_size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(hidden_size))
        self.register_buffer("scale", torch.ones(hidden_size))
        # Not nn.Linear, which complains of a matrix without columns: no hidden state is no error.
        bound = 1.0 / math.sqrt(max(1, hidden_size))
        self.project = nn.Parameter(torch.empty(width, hidden_size).uniform_(-bound, bound))
        self.absent = nn.Parameter(torch.zeros(width))
        self.dropout = ByteDropout(HIDDEN_DROPOUT)

    def fit(self, prefixes: Prefixes) -> None:
        seen = torch.from_numpy(prefixes.hidden[prefixes.has_hidden])
        if len(seen) > 1:
            self.mean.copy_(seen.mean(dim=0))
            self.scale.copy_(1.0 / seen.std(dim=0).clamp(min=1e-4))

    def forward(self, batch: Batch) -> torch.Tensor:
        x = self.dropout(((batch.hidden - self.mean) * self.scale).clamp(-8.0, 8.0))
        projected = batch.has_hidden * (x @ self.project.T) + (1.0 - batch.has_hidden) * self.absent
        return torch.relu(projected)


HIDDEN_DROPOUT = 0.3
"""Share of the hidden state's numbers that a network does not see in training."""

HEAD_WIDTH = 128
"""Hidden units of :func:`head`, which combines what the text says with who is asking."""


def head(width_in: int, shape: Shape, dropout: float) -> nn.Sequential:
    """The two-layer MLP with dropout that emits everything in one pass."""
    return nn.Sequential(
        nn.Linear(width_in, HEAD_WIDTH),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(HEAD_WIDTH, shape.outputs),
    )
