"""Runs a grid of simulations, one process per core."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pbkv.settings import PolicySettings
from pbkv.sim import EngineLimits, Simulation, gpu_costs, simulate
from pbkv.sim.points import OperatingPoint
from pbkv.sim.simulate import check
from pbkv.sim.timeline import Timeline
from pbkv.workload import ScriptedWorkflow
from services.sim.cluster import ClusterPlan, cluster_row
from services.sim.variant import SimVariant
from services.sim.workload import is_trace_file, load_workload


@dataclass(frozen=True, slots=True)
class GridCell:
    """One simulation of the grid. ``seed`` chooses the workflows, the same for every variant.

    ``trace_share`` below 1 lets the seed draw that share of a trace's workflows, which are the same
    for every seed otherwise. ``timeline_bin_s`` is the width of the bins of a hit rate over time, 0
    for none in the row.
    """

    workload: str
    model: str
    gpu: str
    variant: SimVariant
    point: OperatingPoint
    kv_scale: float
    host_ratio: float
    seed: int
    settings: PolicySettings
    accuracy: tuple[float, ...] = ()
    data_dir: Path | None = None
    trace_share: float = 1.0
    timeline_bin_s: float = 0.0
    cluster: ClusterPlan | None = None

    @property
    def kv_tokens(self) -> int:
        return int(self.point.kv_tokens * self.kv_scale)

    def simulation(self) -> Simulation:
        """Raises :class:`SettingsError` for settings that cannot work."""
        return Simulation(
            policy=self.variant.policy,
            queue=self.variant.queue,
            concurrency=self.point.concurrency,
            limits=EngineLimits(
                kv_tokens=self.kv_tokens,
                host_ratio=self.host_ratio,
                max_running_requests=self.point.max_running_requests,
            ),
            costs=gpu_costs(self.model, self.gpu),
            settings=self.variant.settings(self.settings),
            max_new_tokens=self.point.max_new_tokens,
            accuracy=self.accuracy,
            seed=self.seed,
        )

    def check(self, scripts: Sequence[ScriptedWorkflow]) -> None:
        """Raise :class:`SettingsError` now for what would stop the simulation later."""
        simulation = self.simulation()
        if self.cluster is not None:
            self.cluster.check(simulation)
        check(simulation, scripts)

    def scripts(self) -> list[ScriptedWorkflow]:
        """The workflows of this cell's seed."""
        return _scripts(
            self.workload,
            self.point.workflows,
            self.seed,
            self.point.scale,
            self.data_dir,
            self.trace_share if is_trace_file(self.workload) else 1.0,
        )


@lru_cache(maxsize=2)
def _scripts(
    workload: str, count: int, seed: int, scale: float, data_dir: Path | None, share: float
) -> list[ScriptedWorkflow]:
    scripts = load_workload(workload, count, seed=seed, scale=scale, data_dir=data_dir)
    if share == 1.0:
        return scripts
    chosen = random.Random(f"share/{seed}").sample(
        range(len(scripts)), max(1, round(share * len(scripts)))
    )
    return [scripts[place] for place in sorted(chosen)]


def run_cell(cell: GridCell) -> dict[str, Any]:
    """One row: what was simulated and what it measured.

    ``cpu_s`` is the CPU time of the simulation alone, without making its workflows.
    """
    simulation, scripts = cell.simulation(), cell.scripts()
    timeline = Timeline(cell.timeline_bin_s) if cell.timeline_bin_s else None
    hooks = None if timeline is None else timeline.hooks()
    more: dict[str, Any] = {}
    start_s = time.process_time()
    if cell.cluster is None:
        result = simulate(simulation, scripts, hooks=hooks)
    else:
        served = cell.cluster.run(simulation, scripts, cell.seed)
        result, more = served.served, cluster_row(cell.cluster, served)
    cpu_s = time.process_time() - start_s
    forecasts = simulation.settings
    return {
        "workload": cell.workload,
        "model": cell.model,
        "gpu": cell.gpu,
        "variant": cell.variant.name,
        "policy": cell.variant.policy,
        "queue": cell.variant.queue,
        "kv_scale": cell.kv_scale,
        "kv_tokens": cell.kv_tokens,
        "seed": cell.seed,
        "concurrency": cell.point.concurrency,
        "access_model": forecasts.access_model,
        "tie_rule": forecasts.tie_rule,
        "forecast_noise": forecasts.forecast_noise,
        **result.row(),
        **more,
        "cpu_s": cpu_s,
        **({} if timeline is None else timeline.row()),
    }


def run_grid(cells: Iterable[GridCell], jobs: int) -> Iterator[tuple[GridCell, dict[str, Any]]]:
    """Each cell with its row as they finish, in no fixed order; ``jobs`` 1 runs in this process.

    Cells of one seed should be neighbours, so that a process makes its workflows once.
    """
    cells = list(cells)
    if jobs == 1 or len(cells) <= 1:
        for cell in cells:
            yield cell, run_cell(cell)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(cells)), mp_context=context) as pool:
        futures = {pool.submit(run_cell, cell): cell for cell in cells}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def cells_of(
    base: GridCell, variants: Iterable[SimVariant], kv_scales: Iterable[float], seeds: Iterable[int]
) -> list[GridCell]:
    """The grid around one cell."""
    variants = list(variants)
    return [
        replace(base, variant=variant, kv_scale=kv_scale, seed=seed)
        for seed in seeds
        for kv_scale in kv_scales
        for variant in variants
    ]
