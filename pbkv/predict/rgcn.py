"""R-GCN: a relational graph encoder over the agents, one relation per direction of a transition."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch_geometric.nn import RGCNConv

from pbkv.predict.dataset import Prefixes
from pbkv.predict.network import Batch, HiddenInput, Network, Outputs, Shape, head, split_outputs


class Rgcn(Network):
    """Two layers of R-GCN; the latest agent, the mean of the prefix and the hidden state.

    Relations are forward and backward transitions that the training traces hold at all.
    """

    def __init__(self, shape: Shape, *, width: int = 64, dropout: float = 0.3) -> None:
        super().__init__(shape)
        self.embedding = nn.Embedding(shape.agents, width)
        self.layers = nn.ModuleList(RGCNConv(width, width, num_relations=2) for _ in range(2))
        self.text = HiddenInput(shape.hidden_size, width)
        self.head = head(3 * width, shape, dropout)
        self.register_buffer("transitions", torch.zeros(shape.agents, shape.agents))

    def fit_inputs(self, prefixes: Prefixes, transitions: NDArray[np.float32]) -> None:
        super().fit_inputs(prefixes, transitions)
        self.transitions.copy_(torch.from_numpy(transitions))

    def forward(self, batch: Batch) -> Outputs:
        forward_edges = self.transitions.nonzero().T
        edges = torch.cat([forward_edges, forward_edges.flip(0)], dim=1)
        relation = torch.arange(2).repeat_interleave(forward_edges.shape[1])
        agents = self.embedding.weight
        for layer in self.layers:
            agents = torch.relu(layer(agents, edges, relation))
        before = batch.counts / batch.counts.sum(dim=1, keepdim=True).clamp(min=1.0)
        streams = [agents[batch.calls[:, -1]], before @ agents, self.text(batch)]
        return split_outputs(self.head(torch.cat(streams, dim=1)), self.shape)
