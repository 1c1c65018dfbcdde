"""Counts of which agent came k steps after which last agents: the simplest predictor that learns.

Step k is counted directly and not chained from single steps, so that row k is what the forecast
promises, the distribution given that the workflow is still running before step k, and costs no
enumeration of paths.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pbkv.errors import InvalidCheckpoint
from pbkv.predict.calls_to_come import CallsToCome
from pbkv.predict.checkpoint import FORMAT_VERSION, read_checkpoint, write_checkpoint
from pbkv.predict.markov_checkpoint import (
    FAMILY,
    MAX_ORDER,
    START,
    ContextCounts,
    MarkovCheckpoint,
)
from pbkv.predict.vocabulary import MAX_AGENTS, Vocabulary

_END = 0
"""Column of END inside, where agents may be added behind it."""

Context = tuple[int, ...]


class MarkovPredictor:
    """Transition counts of up to ``order`` agents, backed off to shorter contexts.

    With c_n the counts in the context of the last n agents and s = ``smoothing``::

        P_n(x) = (c_n(x) + s * P_{n-1}(x)) / (sum of c_n + s),    P_{-1} uniform

    so a context seen s times counts as much as all shorter ones together.

    How long a workflow goes on beyond K steps is told by :class:`CallsToCome` of its last agent.

    Memory is bounded: at most ``max_cells`` counts, least recently observed contexts go first.
    Old traffic fades: counts of one context and step are halved when they reach ``max_count``.
    """

    wants_hidden_states = False

    def __init__(
        self,
        order: int = MAX_ORDER,
        agents: Iterable[str] = (),
        *,
        steps: int = 3,
        smoothing: float = 1.0,
        max_agents: int = MAX_AGENTS,
        max_cells: int = 4_000_000,
        max_count: float = 10_000.0,
    ) -> None:
        if not 1 <= order <= MAX_ORDER:
            raise ValueError(f"order is {order}; it must be 1 to {MAX_ORDER}")
        if steps < 1 or smoothing <= 0:
            raise ValueError("steps must be at least 1 and smoothing above 0")
        self.order = order
        self.steps = steps
        self.smoothing = smoothing
        self.version = f"{FAMILY}-{order}"
        self._vocabulary = Vocabulary(agents, max_agents=max_agents)
        self._max_cells = max_cells
        self._max_count = max_count
        # context -> counts (K, columns when it was last observed), END first
        self._counts: OrderedDict[Context, NDArray[np.float32]] = OrderedDict()
        self._to_come = CallsToCome()
        self._remaining_calls = np.empty(0, dtype=np.float32)

    @property
    def remaining_calls(self) -> NDArray[np.float32]:
        """Calls still to come, (B,), of the last forecast; NaN after an agent that was in no
        workflow that ended."""
        return self._remaining_calls

    @property
    def agents(self) -> tuple[str, ...]:
        return self._vocabulary.agents

    @property
    def num_contexts(self) -> int:
        return len(self._counts)

    def forecast(
        self, prefixes: Sequence[Sequence[str]], hidden_states: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Distributions (B, K, V+1); hidden states are ignored."""
        columns = len(self._vocabulary) + 1
        forecasts = np.empty((len(prefixes), self.steps, columns), dtype=np.float32)
        for row, prefix in enumerate(prefixes):
            probabilities = self._probabilities(prefix, columns)
            forecasts[row, :, :-1] = probabilities[:, _END + 1 :]
            forecasts[row, :, -1] = probabilities[:, _END]
        self._remaining_calls = np.array(
            [
                self._to_come.after(self._vocabulary.column(prefix[-1])) if prefix else np.nan
                for prefix in prefixes
            ],
            dtype=np.float32,
        )
        return forecasts

    def observe(self, prefix: Sequence[str], following: str | None) -> None:
        target = _END if following is None else self._vocabulary.learn(following) + 1
        if following is None:
            self._to_come.learn([self._vocabulary.column(agent) for agent in prefix])
        columns = len(self._vocabulary) + 1
        calls = self._calls(prefix, self.order + self.steps)
        first = calls[0] == START if calls else False
        for step in range(self.steps):
            made_after = calls[: len(calls) - step]
            if len(made_after) <= first:
                break  # No forecast is made before the first call.
            for context in self._contexts(made_after):
                self._count(context, step, target, columns)

    # ---- counts ----

    def _probabilities(self, prefix: Sequence[str], columns: int) -> NDArray[np.float64]:
        probabilities = np.full((self.steps, columns), 1.0 / columns)
        for context in self._contexts(self._calls(prefix, self.order)):
            counts = self._counts.get(context)
            if counts is not None:
                probabilities *= self.smoothing
                probabilities[:, : counts.shape[1]] += counts
                probabilities /= counts.sum(axis=1, keepdims=True) + self.smoothing
        return probabilities

    def _calls(self, prefix: Sequence[str], last: int) -> Context:
        """Columns of the last calls; the start counts as one of them if it is that near."""
        column = self._vocabulary.column
        calls = tuple(column(agent) for agent in prefix[-last:])
        return (START, *calls) if len(prefix) < last else calls

    def _contexts(self, calls: Context) -> Iterator[Context]:
        """The contexts at the end of ``calls``, shortest first."""
        for length in range(min(self.order, len(calls)) + 1):
            yield calls[len(calls) - length :]

    def _count(self, context: Context, step: int, target: int, columns: int) -> None:
        counts = self._counts.get(context)
        if counts is None or counts.shape[1] < columns:
            wider = np.zeros((self.steps, columns), dtype=np.float32)
            if counts is not None:
                wider[:, : counts.shape[1]] = counts
            counts = self._counts[context] = wider
        self._counts.move_to_end(context)
        counts[step, target] += 1.0
        if counts[step, target] >= self._max_count:
            counts[step] *= 0.5
        while len(self._counts) * self.steps * columns > self._max_cells:
            self._counts.popitem(last=False)

    # ---- checkpoint ----

    def save(self, path: Path) -> None:
        """Write vocabulary and counts as JSON, atomically."""
        counts = [
            ContextCounts(context=list(context), steps=[_sparse(row) for row in counts])
            for context, counts in self._counts.items()
        ]
        write_checkpoint(
            path,
            MarkovCheckpoint(
                format=FORMAT_VERSION,
                family=FAMILY,
                order=self.order,
                steps=self.steps,
                smoothing=self.smoothing,
                agents=list(self.agents[1:]),
                counts=counts,
                calls_to_come=list(self._to_come),
            ),
        )

    @classmethod
    def load(cls, path: Path, *, steps: int, max_agents: int = MAX_AGENTS) -> MarkovPredictor:
        """Read what :meth:`save` wrote, for forecasts of ``steps`` steps.

        Raises :class:`InvalidCheckpoint` with one line, also if the checkpoint has fewer steps.
        """
        saved = read_checkpoint(path, FAMILY, MarkovCheckpoint)
        if saved.steps < steps:
            raise InvalidCheckpoint(
                f"checkpoint {path} forecasts {saved.steps} steps; {steps} are asked for"
            )
        predictor = cls(
            saved.order,
            saved.agents,
            steps=steps,
            smoothing=saved.smoothing,
            max_agents=max(max_agents, len(saved.agents)),
        )
        for entry in saved.counts:
            counts = np.zeros((steps, len(predictor._vocabulary) + 1), dtype=np.float32)
            for step, row in enumerate(entry.steps[:steps]):
                for column, count in row:
                    counts[step, column] = count
            predictor._counts[tuple(entry.context)] = counts
        predictor._to_come = CallsToCome(saved.calls_to_come)
        return predictor


def _sparse(row: NDArray[np.float32]) -> list[tuple[int, float]]:
    return [(int(column), float(row[column])) for column in np.flatnonzero(row)]
