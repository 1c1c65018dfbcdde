"""Multi-layer perceptrons on flat features of the prefix."""

from __future__ import annotations

import torch
from torch import nn

from pbkv.predict.network import Batch, HiddenInput, Network, Outputs, Shape, split_outputs


class AgentsMlp(Network):
    """``tiny``: one layer over the last three agents, without the hidden state.

    The paper's row for it equals its third-order Markov model to three digits, so it can have seen
    no more than that.
    """

    def __init__(self, shape: Shape, *, last: int = 3, width: int = 32) -> None:
        super().__init__(shape)
        self._last = last
        self.layers = nn.Sequential(
            nn.Linear(last * (shape.agents + 1), width),
            nn.ReLU(),
            nn.Linear(width, shape.outputs),
        )

    def forward(self, batch: Batch) -> Outputs:
        last = nn.functional.one_hot(batch.calls[:, -self._last :], self.shape.agents + 1)
        return split_outputs(self.layers(last.flatten(1).float()), self.shape)


class Mlp(Network):
    """Latest agent, how often each was called before, and the hidden state, through an MLP."""

    def __init__(
        self,
        shape: Shape,
        *,
        widths: tuple[int, ...],
        text_width: int,
        dropout: float = 0.3,
    ) -> None:
        super().__init__(shape)
        self.text = HiddenInput(shape.hidden_size, text_width)
        layers: list[nn.Module] = []
        width_in = 2 * shape.agents + text_width
        for width in widths:
            layers += [nn.Linear(width_in, width), nn.ReLU(), nn.Dropout(dropout)]
            width_in = width
        self.layers = nn.Sequential(*layers, nn.Linear(width_in, shape.outputs))

    def forward(self, batch: Batch) -> Outputs:
        latest = nn.functional.one_hot(batch.calls[:, -1], self.shape.agents).float()
        features = torch.cat([latest, batch.counts.log1p(), self.text(batch)], dim=1)
        return split_outputs(self.layers(features), self.shape)
