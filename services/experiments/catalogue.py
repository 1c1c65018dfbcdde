"""All experiments: what each needs simulated, and the section that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pbkv.errors import SettingsError
from pbkv.report import Section
from services.experiments import (
    bounds,
    concurrency,
    lookahead,
    main_results,
    over_time,
    predictors,
    prefetching,
    product,
    regimes,
)
from services.experiments.measured import Measured
from services.experiments.scope import Scope
from services.sim.grid import GridCell


def _all_seeds(scope: Scope) -> int:
    return scope.seeds


def _sweep_seeds(scope: Scope) -> int:
    return scope.sweep_seeds


@dataclass(frozen=True, slots=True)
class Experiment:
    """``cells`` have no seed yet; ``seeds`` says how many each is simulated with."""

    cells: Callable[[Scope], list[GridCell]]
    section: Callable[[Scope, Measured], Section]
    seeds: Callable[[Scope], int] = _sweep_seeds


EXPERIMENTS: dict[str, Experiment] = {
    "table1": Experiment(main_results.cells, main_results.section, _all_seeds),
    "bounds": Experiment(bounds.cells, bounds.section),
    "figure5a": Experiment(concurrency.cells, concurrency.section),
    "figure5b": Experiment(predictors.cells, predictors.section),
    "figure5c": Experiment(lookahead.horizon_cells, lookahead.horizon_section),
    "figure6": Experiment(over_time.cells, over_time.section, lambda scope: 1),
    "figure10": Experiment(lookahead.gamma_cells, lookahead.gamma_section),
    "figure11": Experiment(prefetching.budget_cells, prefetching.budget_section),
    "figure12": Experiment(prefetching.noise_cells, prefetching.noise_section),
    "regimes": Experiment(regimes.cells, regimes.section),
    "product": Experiment(product.cells, product.section),
}

TABLE4 = "table4"
"""Measured and not simulated, see :mod:`services.experiments.overhead`."""


def choose(names: str) -> list[str]:
    """Experiments by a comma list, or ``all``. Raises :class:`SettingsError` with the choices."""
    known = [*EXPERIMENTS, TABLE4]
    if names == "all":
        return known
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in known:
            raise SettingsError(
                f"unknown experiment {name!r}; choose from: all, {', '.join(known)}"
            )
    return chosen


def cells_of(names: Iterable[str], scope: Scope) -> list[GridCell]:
    """All cells with their seeds, each once; those that share their workflows are neighbours."""
    cells = {
        replace(cell, seed=seed): None
        for name in names
        if name in EXPERIMENTS
        for cell in EXPERIMENTS[name].cells(scope)
        for seed in range(1, EXPERIMENTS[name].seeds(scope) + 1)
    }
    return sorted(cells, key=lambda cell: (cell.seed, cell.workload, cell.point.scale))
