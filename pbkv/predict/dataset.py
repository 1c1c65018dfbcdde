"""Training examples: prefixes of workflows, and what came after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pbkv.predict.vocabulary import Vocabulary

WINDOW = 16
"""Last calls of a prefix that a sequence model sees."""

MASKED = -1
"""Target behind the end of a workflow, left out of loss and accuracy."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """N prefixes of workflows over a vocabulary of V agents, with their hidden states.

    ``calls`` (N, WINDOW) int64 are columns of the last calls, the latest in the last place; V
    stands before the first call. ``counts`` (N, V) float32 says how often each agent was called
    before the latest call. ``hidden`` is (N, D) float32, zero where ``has_hidden`` (N,) is false.
    """

    calls: NDArray[np.int64]
    counts: NDArray[np.float32]
    hidden: NDArray[np.float32]
    has_hidden: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.calls)

    def rows(self, index: NDArray[np.int64] | slice) -> Prefixes:
        return Prefixes(
            self.calls[index], self.counts[index], self.hidden[index], self.has_hidden[index]
        )


@dataclass(frozen=True, slots=True)
class Examples:
    """Prefixes with ``targets`` (N, K) int64, and how many calls followed, ``remaining`` (N,).

    Target V is END; after END comes :data:`MASKED`.
    """

    prefixes: Prefixes
    targets: NDArray[np.int64]
    remaining: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.targets)

    def rows(self, index: NDArray[np.int64] | slice) -> Examples:
        return Examples(self.prefixes.rows(index), self.targets[index], self.remaining[index])

    def with_hidden(self, hidden: NDArray[np.float32]) -> Examples:
        """The same with other hidden states, of another layer."""
        prefixes = replace(self.prefixes, hidden=hidden, has_hidden=np.ones(len(self), np.bool_))
        return Examples(prefixes, self.targets, self.remaining)


def encode_prefixes(
    prefixes: Sequence[Sequence[str]],
    hidden_states: NDArray[np.float32],
    vocabulary: Vocabulary,
    hidden_size: int,
) -> Prefixes:
    """Prefixes of at least one agent each; hidden states (N, D), or (N, 0) where there are none.

    Agents that are not in the vocabulary become its unknown agent.
    """
    total, agents = len(prefixes), len(vocabulary)
    calls = np.full((total, WINDOW), agents, dtype=np.int64)
    counts = np.zeros((total, agents), dtype=np.float32)
    for row, prefix in enumerate(prefixes):
        columns = [vocabulary.column(agent) for agent in prefix]
        last = columns[-WINDOW:]
        calls[row, WINDOW - len(last) :] = last
        np.add.at(counts[row], columns[:-1], 1.0)
    seen = hidden_states.shape[1] > 0
    hidden = hidden_states if seen else np.zeros((total, hidden_size), dtype=np.float32)
    return Prefixes(calls, counts, hidden.astype(np.float32), np.full(total, seen))


def make_examples(
    traces: Sequence[Sequence[str]],
    states: Sequence[NDArray[np.floating]] | None,
    vocabulary: Vocabulary,
    *,
    steps: int,
) -> Examples:
    """One example per call of every trace, in order.

    ``states`` holds (calls, D) per trace; None for a workload without text, where D is 0.
    """
    prefixes = [trace[: call + 1] for trace in traces for call in range(len(trace))]
    if states is None:
        hidden = np.zeros((len(prefixes), 0), dtype=np.float32)
    else:
        hidden = np.concatenate([np.asarray(state, dtype=np.float32) for state in states])
    end = len(vocabulary)
    targets = np.full((len(prefixes), steps), MASKED, dtype=np.int64)
    row = 0
    for trace in traces:
        following = [vocabulary.column(agent) for agent in trace] + [end]
        for call in range(len(trace)):
            window = following[call + 1 : call + 1 + steps]
            targets[row, : len(window)] = window
            row += 1
    remaining = np.array(
        [len(trace) - call - 1 for trace in traces for call in range(len(trace))], dtype=np.int64
    )
    encoded = encode_prefixes(prefixes, hidden, vocabulary, hidden.shape[1])
    return Examples(encoded, targets, remaining)


def transition_matrix(
    traces: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> NDArray[np.float32]:
    """A of eq. (3), (V, V): how often one agent followed another, each row divided by its sum."""
    counts = np.zeros((len(vocabulary), len(vocabulary)), dtype=np.float32)
    for trace in traces:
        columns = [vocabulary.column(agent) for agent in trace]
        np.add.at(counts, (columns[:-1], columns[1:]), 1.0)
    shares: NDArray[np.float32] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return shares
