"""A linear probe: what the hidden state alone says, read without any hidden layer."""

from __future__ import annotations

import torch
from torch import nn

from pbkv.predict.dataset import Prefixes
from pbkv.predict.network import Batch, Network, Outputs, Shape, split_outputs


class LinearProbe(Network):
    """One linear layer on the standardised hidden state; it sees no agents."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.register_buffer("mean", torch.zeros(shape.hidden_size))
        self.register_buffer("scale", torch.ones(shape.hidden_size))
        self.layer = nn.Linear(shape.hidden_size, shape.outputs)

    def fit_inputs(self, prefixes: Prefixes, transitions: object) -> None:
        seen = torch.from_numpy(prefixes.hidden[prefixes.has_hidden])
        if len(seen) > 1:
            self.mean.copy_(seen.mean(dim=0))
            self.scale.copy_(1.0 / seen.std(dim=0).clamp(min=1e-4))

    def forward(self, batch: Batch) -> Outputs:
        x = ((batch.hidden - self.mean) * self.scale).clamp(-8.0, 8.0)
        return split_outputs(self.layer(batch.has_hidden * x), self.shape)
