"""A temporal convolutional network over the last calls: causal, dilated, with residuals."""

from __future__ import annotations

import torch
from torch import nn

from pbkv.predict.network import Batch, HiddenInput, Network, Outputs, Shape, head, split_outputs

_KERNEL = 3


class Tcn(Network):
    """``depth`` levels of dilation 1, 2, 4, ...; the hidden state joins at the head."""

    def __init__(
        self,
        shape: Shape,
        *,
        depth: int,
        channels: int,
        width: int = 64,
        dropout: float = 0.3,
    ) -> None:
        super().__init__(shape)
        self.embedding = nn.Embedding(shape.agents + 1, channels)
        self.levels = nn.ModuleList(
            nn.Conv1d(channels, channels, _KERNEL, dilation=2**level) for level in range(depth)
        )
        self.text = HiddenInput(shape.hidden_size, width)
        self.head = head(channels + width, shape, dropout)

    def forward(self, batch: Batch) -> Outputs:
        states = self.embedding(batch.calls).transpose(1, 2)
        for level, convolution in enumerate(self.levels):
            padded = nn.functional.pad(states, ((_KERNEL - 1) * 2**level, 0))
            states = states + torch.relu(convolution(padded))
        raw = self.head(torch.cat([states[:, :, -1], self.text(batch)], dim=1))
        return split_outputs(raw, self.shape)
