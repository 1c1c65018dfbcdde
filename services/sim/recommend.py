"""Which settings to run: a search, one setting after the other, over simulations of a workload.

Policy and queue first, then what that policy has to set, then the host tier, then how many
workflows at a time. Each stage starts from the best of the one before. An expensive choice has to
earn its place: candidates of a stage stand from the simplest on, and a later one is taken only if
it is better by more than ``WORTH`` and by more than chance explains.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pbkv.policy import POLICIES
from services.sim.grid import GridCell
from services.sim.variant import make_variants

Row = dict[str, Any]
Simulate = Callable[[Sequence[GridCell]], Mapping[GridCell, Row]]

BASELINE = "lru/fcfs"
"""Stock SGLang as it starts."""

VARIANTS = (
    BASELINE,
    "lru/lpm",
    "session/lpm",
    "session/hrrn",
    "session/shortest-prefill-first",
    "lae/fcfs",
    "lae+page/pbkv",
    "he+page/pbkv",
    "pbkv+page/fcfs",
    "pbkv+page/pbkv",
    "pbkv+page+learned/pbkv",
)
"""Stock first, then by how much has to run beside the engine."""

HORIZONS = (3, 1, 2, 5)
GAMMAS = (0.7, 0.5, 0.9)
HOST_RATIOS = (0.0, 1.0, 2.0, 4.0)
CONCURRENCY_FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)

WORTH = 0.01
"""A gain below this share is none."""
SATURATED = 0.97
"""Of the best throughput: more workflows at a time would only wait longer."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting that was tried: its objective, mean over samples, and what it gains on the
    baseline, seed by seed (baseline over candidate, so that above 1 is better)."""

    stage: str
    name: str
    cell: GridCell
    objective: tuple[float, ...]
    gain: tuple[float, ...]
    hit_rate: float
    workflows_per_hour: float
    latency_p95_s: float

    @property
    def mean(self) -> float:
        return statistics.mean(self.objective)

    @property
    def gain_mean(self) -> float:
        return statistics.mean(self.gain)

    @property
    def gain_std(self) -> float:
        """Deviation over samples; 0 of a single one."""
        return statistics.stdev(self.gain) if len(self.gain) > 1 else 0.0

    def better_than(self, other: Candidate) -> bool:
        """By more than a trifle, and than two standard errors of the paired difference."""
        saved = [b - a for a, b in zip(self.objective, other.objective, strict=True)]
        error = statistics.stdev(saved) / math.sqrt(len(saved)) if len(saved) > 1 else 0.0
        return statistics.mean(saved) > max(WORTH * other.mean, 2.0 * error)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """``chosen`` is the end of the search at the concurrency that was asked about, ``at_a_time``
    the candidate with the recommended concurrency. ``tried`` are all candidates in order."""

    baseline: Candidate
    chosen: Candidate
    at_a_time: Candidate
    tried: tuple[Candidate, ...]

    def environment(self) -> dict[str, str]:
        """The settings of the plug-in as an engine reads them; empty for the stock engine."""
        variant = self.chosen.cell.variant
        if variant.policy not in POLICIES:
            return {}
        settings = variant.settings(self.chosen.cell.settings)
        queue = variant.queue if variant.queue == "pbkv" else ""
        shown = replace(settings, policy=variant.policy, queue=queue, agent_graph="")
        return {"PBKV_ENGINE_POLICY": variant.policy, **shown.to_env()}


def recommend(
    base: GridCell, seeds: Iterable[int], simulate: Simulate, *, objective: str, slo_s: float | None
) -> Recommendation:
    """Search from ``base``, whose seed and variant are replaced. ``objective`` is the row's key to
    make small; ``slo_s`` bounds the p95 latency of the recommended concurrency."""
    search = _Search(tuple(seeds), simulate, objective)
    (stock,) = make_variants([BASELINE], ["fcfs"])
    start = replace(base, variant=stock)
    named = {name: replace(base, variant=make_variants([name], ["fcfs"])[0]) for name in VARIANTS}
    best = search.stage("policy and queue", named, reference=start)
    cell = best.cell
    if uses_forecasts(cell):
        for name, values in (("lookahead_steps", HORIZONS), ("gamma", GAMMAS)):
            best = search.stage(
                name,
                {f"{name} {value:g}": _with(cell, name, value) for value in values},
            )
            cell = best.cell
    best = search.stage(
        "host tier",
        {f"{ratio:g} x the pool": replace(cell, host_ratio=ratio) for ratio in HOST_RATIOS},
    )
    cell = best.cell
    counts = sorted({max(1, round(f * cell.point.concurrency)) for f in CONCURRENCY_FACTORS})
    tried = search.candidates(
        "concurrency",
        {
            f"{count} at a time": replace(cell, point=replace(cell.point, concurrency=count))
            for count in counts
        },
    )
    return Recommendation(search.baseline, best, _concurrency(tried, slo_s), tuple(search.tried))


def _with(cell: GridCell, setting: str, value: float) -> GridCell:
    settings = replace(cell.settings, **{setting: value})  # type: ignore[arg-type]
    return replace(cell, settings=settings)


def uses_forecasts(cell: GridCell) -> bool:
    """Whether K and gamma mean anything to the policy of ``cell``."""
    policy = POLICIES.get(cell.variant.policy)
    return policy is not None and policy.uses_forecasts


def _concurrency(tried: Sequence[Candidate], slo_s: float | None) -> Candidate:
    """With a bound on p95 the most workflows at a time that keep it, the fewest if none does;
    without, the fewest that reach nearly the best throughput."""
    if slo_s is not None:
        kept = [candidate for candidate in tried if candidate.latency_p95_s <= slo_s]
        return kept[-1] if kept else tried[0]
    best = max(candidate.workflows_per_hour for candidate in tried)
    return next(c for c in tried if c.workflows_per_hour >= SATURATED * best)


class _Search:
    """Simulates candidates, each cell once, and keeps them."""

    def __init__(self, seeds: tuple[int, ...], simulate: Simulate, objective: str) -> None:
        self._seeds = seeds
        self._simulate = simulate
        self._objective = objective
        self._rows: dict[GridCell, Row] = {}
        self._reference: tuple[float, ...] = ()
        self.tried: list[Candidate] = []
        self.baseline: Candidate

    def stage(
        self, stage: str, cells: Mapping[str, GridCell], reference: GridCell | None = None
    ) -> Candidate:
        """The best of ``cells``, which stand from the simplest on."""
        candidates = self.candidates(stage, cells, reference)
        best = candidates[0]
        for candidate in candidates[1:]:
            if candidate.better_than(best):
                best = candidate
        return best

    def candidates(
        self, stage: str, cells: Mapping[str, GridCell], reference: GridCell | None = None
    ) -> list[Candidate]:
        wanted = [*cells.values(), *([] if reference is None else [reference])]
        seeded = [replace(cell, seed=seed) for seed in self._seeds for cell in wanted]
        missing = list(dict.fromkeys(cell for cell in seeded if cell not in self._rows))
        self._rows |= self._simulate(missing)
        if reference is not None:
            self._reference = self._values(reference)
        candidates = [self._candidate(stage, name, cell) for name, cell in cells.items()]
        if reference is not None:
            self.baseline = self._candidate("baseline", BASELINE, reference)
        self.tried += candidates
        return candidates

    def _candidate(self, stage: str, name: str, cell: GridCell) -> Candidate:
        rows = [self._rows[replace(cell, seed=seed)] for seed in self._seeds]
        values = self._values(cell)
        return Candidate(
            stage=stage,
            name=name,
            cell=cell,
            objective=values,
            gain=tuple(
                there / here if here else 1.0
                for here, there in zip(values, self._reference, strict=True)
            ),
            hit_rate=statistics.mean(row["hit_rate"] for row in rows),
            workflows_per_hour=statistics.mean(
                3600.0 * row["workflows"] / max(1e-9, row["duration_s"]) for row in rows
            ),
            latency_p95_s=statistics.mean(row["latency_p95_s"] for row in rows),
        )

    def _values(self, cell: GridCell) -> tuple[float, ...]:
        return tuple(self._rows[replace(cell, seed=seed)][self._objective] for seed in self._seeds)
