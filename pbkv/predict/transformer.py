"""A Transformer encoder over the last calls, with the hidden state as one more token."""

from __future__ import annotations

import torch
from torch import nn

from pbkv.predict.dataset import WINDOW
from pbkv.predict.network import Batch, HiddenInput, Network, Outputs, Shape, head, split_outputs


class Transformer(Network):
    """``depth`` layers over WINDOW agents and the hidden state; read at the latest call."""

    def __init__(
        self,
        shape: Shape,
        *,
        depth: int,
        width: int = 64,
        heads: int = 4,
        dropout: float = 0.3,
    ) -> None:
        super().__init__(shape)
        self.embedding = nn.Embedding(shape.agents + 1, width)
        self.position = nn.Parameter(0.02 * torch.randn(WINDOW, width))
        self.text = HiddenInput(shape.hidden_size, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = head(2 * width, shape, dropout)

    def forward(self, batch: Batch) -> Outputs:
        tokens = self.embedding(batch.calls) + self.position
        text = self.text(batch)
        states = self.encoder(
            torch.cat([tokens, text[:, None]], dim=1), src_key_padding_mask=self._padding(batch)
        )
        return split_outputs(
            self.head(torch.cat([states[:, -2], states[:, -1]], dim=1)), self.shape
        )

    def _padding(self, batch: Batch) -> torch.Tensor:
        before_first = batch.calls == self.shape.agents
        text_token = torch.zeros(len(before_first), 1, dtype=torch.bool)
        return torch.cat([before_first, text_token], dim=1)
