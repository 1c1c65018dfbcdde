"""The runs of one evaluation: Table 3, the curve over training sizes, the scan over layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbkv.errors import SettingsError
from pbkv.hidden_source import POST_NORM
from pbkv.predict.evaluation import (
    Evaluation,
    Split,
    agent_mean_mae,
    evaluate_variant,
    split_traces,
    variants,
)
from pbkv.predict.training import TrainingPlan

DETERMINISTIC = frozenset({"markov", "knn"})
"""Families that no seed changes: one run of each is enough."""

MAIN, SIZES, LAYERS = "main", "sizes", "layers"


@dataclass(frozen=True, slots=True)
class TracedStates:
    """Agents per trace, and the states of each source per trace; no sources without text."""

    agents: list[tuple[str, ...]]
    sources: tuple[str, ...] = ()
    states: list[NDArray[np.float16]] = field(default_factory=list)

    def of(self, source: str) -> list[NDArray[np.float16]] | None:
        """The states (calls, D) of one source."""
        if not self.sources:
            return None
        column = self.sources.index(source)
        return [states[:, column] for states in self.states]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """``sources`` get a table each. The first is the main one, with ``seeds`` trainings; the
    others, the further training ``sizes`` (on the main source) and the layers have ``curve_seeds``.
    """

    chosen: tuple[tuple[str, str], ...]
    train: int
    test: int
    seeds: int
    sizes: tuple[int, ...] = ()
    curve_seeds: int = 3
    scan_layers: bool = True
    sources: tuple[str, ...] = (POST_NORM,)
    training: TrainingPlan = field(default_factory=TrainingPlan)


@dataclass(frozen=True, slots=True)
class Run:
    """One training: what part of the evaluation it is for, and of what."""

    part: str
    family: str
    variant: str
    seed: int
    train: int
    source: str


def choose_variants(families: str) -> tuple[tuple[str, str], ...]:
    """``all``, or a comma list of families and of family/variant. Raises :class:`SettingsError`."""
    known = variants()
    if families == "all":
        return tuple(known)
    chosen: list[tuple[str, str]] = []
    for name in families.split(","):
        family, _, variant = name.strip().partition("/")
        found = [(f, v) for f, v in known if f == family and variant in ("", v)]
        if not found:
            choices = ", ".join(dict.fromkeys(f for f, _ in known))
            raise SettingsError(
                f"unknown family {name.strip()[:40]!r}; choose all, or of: {choices}"
            )
        chosen += [pair for pair in found if pair not in chosen]
    return tuple(chosen)


def plan_runs(plan: EvaluationPlan, sources: Sequence[str]) -> list[Run]:
    """All runs: the main table first, then what has fewer seeds; each of them seed by seed.

    So a run that is cut short has whole tables of fewer seeds. Without text the families that read
    nothing else have nothing to learn from.
    """
    chosen = [
        (family, variant)
        for family, variant in plan.chosen
        if sources or family not in ("linear-probe", "knn")
    ]
    scanned = [source for source in sources if source not in plan.sources]
    if not plan.scan_layers or ("graphsage", "") not in chosen:
        scanned = []
    sizes = [size for size in plan.sizes if size < plan.train]
    main, *others = plan.sources

    def families(seed: int, part: str, train: int, source: str) -> Iterator[Run]:
        for family, variant in chosen:
            if seed == 0 or family not in DETERMINISTIC:
                yield Run(part, family, variant, seed, train, source)

    planned: list[Run] = []
    for seed in range(plan.seeds):
        planned += families(seed, MAIN, plan.train, main)
    for seed in range(min(plan.seeds, plan.curve_seeds)):
        for size in sizes:
            planned += families(seed, SIZES, size, main)
        for source in others:
            planned += families(seed, MAIN, plan.train, source)
        planned += [Run(LAYERS, "graphsage", "", seed, plan.train, s) for s in scanned]
    return planned


def choose_layer(
    traced: TracedStates, *, train: int, training: TrainingPlan | None = None, seed: int = 0
) -> Iterator[tuple[str, float]]:
    """Each layer, and how a GraphSAGE on it does on training traces that it did not learn from.

    It learns from the first four fifths of the ``train`` training traces, and its mean accuracy
    over the steps on the last fifth is what is yielded: no test trace takes part.
    """
    held = max(1, train // 5)
    for source in traced.sources:
        if source == POST_NORM:
            continue
        states = traced.of(source)
        split = split_traces(
            traced.agents[:train],
            None if states is None else states[:train],
            train=train - held,
            test=held,
        )
        result = evaluate_variant("graphsage", "", split, seed=seed, plan=training)
        # NaN is the accuracy of a step that no workflow reached.
        yield source, float(np.nanmean([step.accuracy for step in result.steps]))


def execute(
    runs: Sequence[Run], plan: EvaluationPlan, traced: TracedStates
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Train and score each run in turn; yields its row as soon as it is there."""
    split: Split | None = None
    held: tuple[int, str] | None = None
    naive = math.nan
    for run in runs:
        if split is None or held != (run.train, run.source):
            held = (run.train, run.source)
            # The newest of the traces before the test, whatever the size: as a service would.
            start = len(traced.agents) - plan.test - run.train
            states = traced.of(run.source)
            split = split_traces(
                traced.agents[start:],
                None if states is None else states[start:],
                train=run.train,
                test=plan.test,
            )
            naive = agent_mean_mae(split)
        result = evaluate_variant(run.family, run.variant, split, seed=run.seed, plan=plan.training)
        yield run, _row(run, result, naive)


def _row(run: Run, result: Evaluation, naive: float) -> dict[str, Any]:
    scores = {f"s{k}": step.accuracy for k, step in enumerate(result.steps, start=1)}
    errors = {f"ece{k}": step.calibration_error for k, step in enumerate(result.steps, start=1)}
    return {
        "part": run.part,
        "family": run.family,
        "variant": run.variant,
        "seed": run.seed,
        "train_traces": run.train,
        "source": run.source,
        **scores,
        **errors,
        "parameters": result.parameters,
        "infer_1024_ms": result.infer_1024_ms,
        "train_s": result.train_s,
        "remaining_mae": result.remaining_mae,
        "remaining_mae_agent_mean": naive,
        "remaining_within_2_spreads": result.remaining_spread_coverage,
        "reliability": [list(step.reliability) for step in result.steps],
    }
