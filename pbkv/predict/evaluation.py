"""Trains one predictor on the first traces of a workload and scores it on the last."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pbkv.predict.dataset import Examples, make_examples, transition_matrix
from pbkv.predict.families import NETWORKS, make_network
from pbkv.predict.knn import NearestNeighbours
from pbkv.predict.markov import MarkovPredictor
from pbkv.predict.network import Batch, Network, Shape
from pbkv.predict.network_predictor import network_forecasts
from pbkv.predict.scores import StepScore, score_steps
from pbkv.predict.training import TrainingPlan, train_network
from pbkv.predict.vocabulary import Vocabulary

TIMED_PREFIXES = 1024
_TIMED_RUNS = 20
_TIMED_RUNS_SLOW = 3

Traces = Sequence[Sequence[str]]
States = Sequence[NDArray[np.floating]]


@dataclass(frozen=True, slots=True)
class Split:
    """Traces in order of time: train on the first, choose the epoch by the next, test on the last.

    ``training`` and ``validation`` together are the training traces; a family that needs no
    validation learns from both.
    """

    vocabulary: Vocabulary
    train_traces: Traces
    test_traces: Traces
    transitions: NDArray[np.float32]
    training: Examples
    validation: Examples
    test: Examples

    @property
    def shape(self) -> Shape:
        return Shape(
            len(self.vocabulary),
            self.test.targets.shape[1],
            self.test.prefixes.hidden.shape[1],
        )


def split_traces(
    traces: Traces, states: States | None, *, train: int, test: int, steps: int = 3
) -> Split:
    """The first ``train`` traces and the last ``test``; of the former a tenth is for validation."""
    if train < 2 or test < 1 or train + test > len(traces):
        raise ValueError(f"{len(traces)} traces cannot be split into {train} and {test}")
    held = max(1, train // 10)
    vocabulary = Vocabulary(agent for trace in traces[:train] for agent in trace)

    def examples(part: slice) -> Examples:
        return make_examples(
            traces[part], None if states is None else states[part], vocabulary, steps=steps
        )

    return Split(
        vocabulary,
        traces[:train],
        traces[len(traces) - test :],
        transition_matrix(traces[:train], vocabulary),
        examples(slice(0, train - held)),
        examples(slice(train - held, train)),
        examples(slice(len(traces) - test, len(traces))),
    )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How one trained predictor did; ``remaining_...`` are None where it has no such output."""

    steps: tuple[StepScore, ...]
    parameters: int
    infer_1024_ms: float
    train_s: float
    remaining_mae: float | None = None
    remaining_spread_coverage: float | None = None
    network: Network | None = None


def evaluate_variant(
    family: str, variant: str, split: Split, *, seed: int, plan: TrainingPlan | None = None
) -> Evaluation:
    """Train and score ``family``/``variant``; ``seed`` fixes initial weights and all draws."""
    if family == "markov":
        return _evaluate_markov(int(variant.removeprefix("n=")), split)
    if family == "knn":
        return _evaluate_knn(int(variant.removeprefix("k=")), split)
    torch.manual_seed(seed)
    network = make_network(family, variant, split.shape)
    start_s = time.perf_counter()
    train_network(
        network, split.training, split.validation, split.transitions, seed=seed, plan=plan
    )
    train_s = time.perf_counter() - start_s
    probabilities, remaining = network_forecasts(network, split.test.prefixes)
    batch = Batch.of(_timed_rows(split.test).prefixes)
    error = np.abs(remaining.mean - split.test.remaining)

    def forward() -> None:
        with torch.inference_mode():
            network(batch)

    return Evaluation(
        score_steps(probabilities, split.test.targets),
        sum(parameter.numel() for parameter in network.parameters()),
        _median_ms(forward),
        train_s,
        float(error.mean()),
        float((error <= 2.0 * remaining.spread).mean()),
        network,
    )


def agent_mean_mae(split: Split) -> float:
    """Error of the naive forecast of remaining calls: the mean of the latest agent in training."""
    total, calls = np.zeros(len(split.vocabulary)), np.zeros(len(split.vocabulary))
    for part in (split.training, split.validation):
        np.add.at(total, part.prefixes.calls[:, -1], part.remaining)
        np.add.at(calls, part.prefixes.calls[:, -1], 1)
    mean = np.where(calls > 0, total / np.maximum(calls, 1), total.sum() / calls.sum())
    return float(np.abs(mean[split.test.prefixes.calls[:, -1]] - split.test.remaining).mean())


def variants() -> list[tuple[str, str]]:
    """Every (family, variant) that can be evaluated, in the order of Table 3."""
    networks = [(family, kind) for family, kinds in NETWORKS.items() for kind in kinds]
    others = [
        ("knn", "k=5"),
        ("knn", "k=20"),
        ("markov", "n=1"),
        ("markov", "n=2"),
        ("markov", "n=3"),
    ]
    return [*networks, *others]


def _evaluate_markov(order: int, split: Split) -> Evaluation:
    steps = split.shape.steps
    predictor = MarkovPredictor(order, split.vocabulary.agents[1:], steps=steps, smoothing=0.1)
    start_s = time.perf_counter()
    for trace in split.train_traces:
        for call in range(1, len(trace)):
            predictor.observe(trace[:call], trace[call])
        predictor.observe(trace, None)
    train_s = time.perf_counter() - start_s
    prefixes = [trace[: call + 1] for trace in split.test_traces for call in range(len(trace))]
    none = np.empty((len(prefixes), 0), dtype=np.float32)
    probabilities = predictor.forecast(prefixes, none)
    timed = (prefixes * (TIMED_PREFIXES // len(prefixes) + 1))[:TIMED_PREFIXES]
    return Evaluation(
        score_steps(probabilities, split.test.targets),
        predictor.num_contexts * steps * (len(split.vocabulary) + 1),
        _median_ms(lambda: predictor.forecast(timed, none[:0]), runs=_TIMED_RUNS_SLOW),
        train_s,
    )


def _evaluate_knn(neighbours: int, split: Split) -> Evaluation:
    model = NearestNeighbours(neighbours, split.shape.agents, split.shape.steps)
    start_s = time.perf_counter()
    model.fit(split.training)
    train_s = time.perf_counter() - start_s
    timed = _timed_rows(split.test).prefixes
    return Evaluation(
        score_steps(model.probabilities(split.test.prefixes), split.test.targets),
        model.num_parameters,
        _median_ms(lambda: model.probabilities(timed), runs=_TIMED_RUNS_SLOW),
        train_s,
    )


def _timed_rows(examples: Examples) -> Examples:
    return examples.rows(np.resize(np.arange(len(examples)), TIMED_PREFIXES))


def _median_ms(call: Callable[[], object], runs: int = _TIMED_RUNS) -> float:
    times = []
    for _ in range(runs + 1):
        start_s = time.perf_counter()
        call()
        times.append(time.perf_counter() - start_s)
    return 1000.0 * statistics.median(times[1:])
