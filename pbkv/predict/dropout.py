"""Dropout that draws a byte per number: for inputs so wide that the draws are the cost."""

from __future__ import annotations

import torch
from torch import nn

_LEVELS = 256
_INT64 = torch.iinfo(torch.int64)


class ByteDropout(nn.Module):
    """:class:`torch.nn.Dropout` with the probability rounded to a 256th.

    PyTorch draws one number per element on a CPU, one after the other, which was a third of the
    time to train on hidden states; here eight elements share a draw.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"probability is {probability}; it must be in [0, 1)")
        self._dropped = min(_LEVELS - 1, round(_LEVELS * probability))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self._dropped == 0:
            return x
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
        levels = draws.random_(_INT64.min, _INT64.max).view(torch.uint8)[: x.numel()].view_as(x)
        return x * ((levels >= self._dropped) * (_LEVELS / (_LEVELS - self._dropped)))
