"""A trained network as the predictor of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pbkv.errors import InvalidCheckpoint
from pbkv.hidden_source import POST_NORM
from pbkv.predict.dataset import Prefixes, encode_prefixes
from pbkv.predict.network import Batch, Network
from pbkv.predict.network_checkpoint import load_network
from pbkv.predict.remaining import RemainingCalls, remaining_calls
from pbkv.predict.vocabulary import Vocabulary


class NetworkPredictor:
    """Forecasts by one forward pass on the CPU, in whatever thread asks.

    A call without a hidden state is forecast too: training left the state out of some examples, so
    the network knows what it can say from the agents alone.
    """

    def __init__(
        self,
        network: Network,
        vocabulary: Vocabulary,
        *,
        steps: int,
        version: str,
        hidden_source: str = POST_NORM,
    ) -> None:
        self._network = network
        self._vocabulary = vocabulary
        self._steps = steps
        self.version = version
        self.hidden_source = hidden_source
        self._remaining: NDArray[np.float32] = np.empty(0, dtype=np.float32)

    @classmethod
    def load(cls, path: Path, *, steps: int) -> NetworkPredictor:
        """Read a checkpoint for forecasts of ``steps`` steps. Raises :class:`InvalidCheckpoint`."""
        network, content, name = load_network(path)
        if content.steps < steps:
            raise InvalidCheckpoint(
                f"checkpoint {path} forecasts {content.steps} steps; {steps} are asked for"
            )
        vocabulary = Vocabulary(content.agents, max_agents=len(content.agents))
        return cls(
            network,
            vocabulary,
            steps=steps,
            version=name,
            hidden_source=content.hidden_source,
        )

    @property
    def agents(self) -> tuple[str, ...]:
        return self._vocabulary.agents

    @property
    def hidden_size(self) -> int:
        """Length of the hidden states that it was trained on, 0 if on none."""
        return self._network.shape.hidden_size

    @property
    def wants_hidden_states(self) -> bool:
        return self.hidden_size > 0

    @property
    def remaining_calls(self) -> NDArray[np.float32]:
        """Expected calls still to come, (B,), of the prefixes of the last :meth:`forecast`."""
        return self._remaining

    def forecast(
        self, prefixes: Sequence[Sequence[str]], hidden_states: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Distributions (B, K, V+1)."""
        width = hidden_states.shape[1]
        if width and self.hidden_size == 0:
            hidden_states = hidden_states[:, :0]
        elif width and width != self.hidden_size:
            raise InvalidCheckpoint(
                f"the predictor's checkpoint {self.version} is for hidden states of "
                f"{self.hidden_size} numbers; this model's have {width}"
            )
        encoded = encode_prefixes(prefixes, hidden_states, self._vocabulary, self.hidden_size)
        probabilities, remaining = network_forecasts(self._network, encoded)
        self._remaining = remaining.mean.astype(np.float32)
        return probabilities[:, : self._steps]


def network_forecasts(
    network: Network, prefixes: Prefixes
) -> tuple[NDArray[np.float32], RemainingCalls]:
    """Distributions (N, K, V+1) and the remaining calls of the same forward pass."""
    with torch.inference_mode():
        outputs = network(Batch.of(prefixes))
        probabilities = torch.softmax(outputs.logits, dim=2).numpy()
        hazard = torch.sigmoid(outputs.tail).numpy()
    return probabilities, remaining_calls(probabilities[:, :, -1], hazard)
