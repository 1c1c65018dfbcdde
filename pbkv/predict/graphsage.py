"""GraphSAGE over the call graph, fused with the prefix and the hidden state (section 4.1)."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch_geometric.nn import DenseSAGEConv

from pbkv.predict.dataset import WINDOW, Prefixes
from pbkv.predict.network import Batch, HiddenInput, Network, Outputs, Shape, head, split_outputs
from pbkv.predict.vocabulary import UNKNOWN_COLUMN


class GraphSage(Network):
    """The paper's predictor: two layers of eq. (3), attention of eq. (4), ReLU(W_t x), an MLP.

    The weights of eq. (4) depend on the agents and not on their places in the prefix, so the sum
    over the prefix is taken over agents, each counted as often as it was called: the same result,
    at a cost that does not grow with the workflow.
    """

    def __init__(self, shape: Shape, *, width: int = 64, dropout: float = 0.3) -> None:
        super().__init__(shape)
        self._width = width
        # No agent V here, which stands before the first call: it is never the latest one.
        self.embedding = nn.Embedding(shape.agents, width)
        self.layers = nn.ModuleList(DenseSAGEConv(width, width) for _ in range(2))
        self.query = nn.Linear(width, width, bias=False)
        self.text = HiddenInput(shape.hidden_size, width)
        self.head = head(3 * width, shape, dropout)
        self.register_buffer("transitions", torch.zeros(shape.agents, shape.agents))

    def fit_inputs(self, prefixes: Prefixes, transitions: NDArray[np.float32]) -> None:
        super().fit_inputs(prefixes, transitions)
        self.transitions.copy_(torch.from_numpy(transitions))

    def forward(self, batch: Batch) -> Outputs:
        agents = self.agent_states()
        current = agents[batch.calls[:, -1]]
        path = self.path_summary(batch, agents)
        raw = self.head(torch.cat([current, path, self.text(batch)], dim=1))
        return split_outputs(raw, self.shape)

    def path_summary(self, batch: Batch, agents: torch.Tensor) -> torch.Tensor:
        """h_path of eq. (4), (B, d), of the agents before the latest one."""
        # Queries and scores are per agent as well: (V, V) whatever the batch.
        scores = (self.query(agents) @ agents.T / math.sqrt(self._width))[batch.calls[:, -1]]
        weights = batch.counts * (scores - scores.amax(dim=1, keepdim=True)).exp()
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1e-12)
        return weights @ agents

    def agent_states(self) -> torch.Tensor:
        """H of eq. (3) after both layers, (V, d)."""
        states = self.embedding.weight
        for layer in self.layers:
            states = torch.relu(layer(states, self.transitions)[0])
        return states


class OrderedGraphSage(GraphSage):
    """The same with places in the attention: beyond the paper, whose eq. (4) forgets the order.

    A learnt vector per distance to the latest call is added to each of the last WINDOW - 1 agents,
    as key and as value.
    """

    def __init__(self, shape: Shape, *, width: int = 64) -> None:
        super().__init__(shape, width=width)
        self.place = nn.Parameter(0.1 * torch.randn(WINDOW - 1, width))

    def path_summary(self, batch: Batch, agents: torch.Tensor) -> torch.Tensor:
        latest, before = batch.calls[:, -1], batch.calls[:, :-1]
        absent = before == self.shape.agents
        before = before.masked_fill(absent, UNKNOWN_COLUMN)
        # Score and value of a place are those of its agent and of its distance, added: tables of
        # (V, V) and (V, WINDOW - 1) instead of a vector per place.
        queries = self.query(agents) / math.sqrt(self._width)
        scores = (queries @ agents.T)[latest].gather(1, before) + (queries @ self.place.T)[latest]
        # A first call has nothing before it: then all weights are 0, and so is the summary.
        weights = torch.softmax(scores.masked_fill(absent, -1e9), dim=1).masked_fill(absent, 0.0)
        by_agent = torch.zeros_like(batch.counts).scatter_add(1, before, weights)
        return by_agent @ agents + weights @ self.place
