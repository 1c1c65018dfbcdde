"""``pbkv recommend``: settings for a workload on a GPU, found by simulation."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.outputs import check_writable
from services.cli.problem import refuse

if TYPE_CHECKING:
    from rich.table import Table

    from services.sim.grid import GridCell
    from services.sim.recommend import Candidate, Recommendation

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_OBJECTIVES = {"mean": "latency_mean_s", "p95": "latency_p95_s", "p99": "latency_p99_s"}
_TRACE_SHARE = 0.7
"""Of a trace's workflows, drawn anew for every sample: how else should one trace tell chance?"""


@app.command()
def recommend(
    trace: Annotated[
        Path | None, typer.Option(help="File of traces, of pbkv or in Mooncake's format.")
    ] = None,
    workload: Annotated[
        str, typer.Option(help="hover, swebench or financebench, if there is no trace.")
    ] = "",
    model: Annotated[str, typer.Option(help="qwen3-14b or qwen3-32b.")] = "qwen3-32b",
    gpu: Annotated[str, typer.Option(help="a6000, l40s, a100, h100 or h200.")] = "a6000",
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Workflows at a time that are to be served.")
    ] = None,
    workflows: Annotated[
        int | None, typer.Option(min=2, help="Workflows of one sample, at most.")
    ] = None,
    scale: Annotated[
        float | None, typer.Option(min=0.001, help="Factor on token counts of a workload.")
    ] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(min=16, help="KV pool; default: what the GPU's memory allows.")
    ] = None,
    max_running: Annotated[int | None, typer.Option(min=1, help="Running requests.")] = None,
    objective: Annotated[str, typer.Option(help="Workflow latency: mean, p95 or p99.")] = "mean",
    slo: Annotated[
        float | None,
        typer.Option(min=0.001, help="Bound of the p95 workflow latency, s, for concurrency."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Samples of workflows.")] = 3,
    data: Annotated[Path | None, typer.Option(help="Folder of the real data sets.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: all cores.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all candidates to this file.")] = None,
) -> None:
    """Find policy, queue, K, gamma, host tier and concurrency, with the gain to expect."""
    from pbkv.errors import PbkvError, SettingsError
    from pbkv.settings import PolicySettings
    from pbkv.sim import gpu_costs
    from pbkv.sim.points import operating_point
    from services.bench.report import environment, show, write_json
    from services.sim import recommend as search
    from services.sim.grid import GridCell
    from services.sim.variant import make_variants

    try:
        if (trace is None) == (not workload):
            raise SettingsError("give either --trace FILE or --workload NAME")
        if objective not in _OBJECTIVES:
            raise SettingsError(
                f"unknown objective {objective!r}; choose one of: {', '.join(_OBJECTIVES)}"
            )
        name = workload if trace is None else str(trace)
        if trace is not None and not trace.is_file():
            raise SettingsError(f"there is no file {trace}")
        costs = gpu_costs(model, gpu)
        point = operating_point(name, costs)
        (variant,) = make_variants([search.BASELINE], ["fcfs"])
        base = GridCell(
            workload=name,
            model=model,
            gpu=gpu,
            variant=variant,
            point=replace(
                point,
                workflows=workflows or point.workflows,
                concurrency=concurrency or point.concurrency,
                scale=scale or point.scale,
                kv_tokens=kv_tokens or point.kv_tokens,
                max_running_requests=max_running or point.max_running_requests,
            ),
            kv_scale=1.0,
            host_ratio=1.0,
            seed=1,
            settings=PolicySettings(),
            data_dir=data,
            trace_share=_TRACE_SHARE,
        )
        for seed in range(1, seeds + 1):
            sample = replace(base, seed=seed)
            sample.check(sample.scripts())
        check_writable(json)
        with _Progress(jobs or os.cpu_count() or 1) as simulate:
            found = search.recommend(
                base,
                range(1, seeds + 1),
                simulate,
                objective=_OBJECTIVES[objective],
                slo_s=slo,
            )
        if json is not None:
            env = environment(
                operating_point_fitted=point.fitted,
                costs=costs.source,
                recommendation=_summary(found),
            )
            write_json(json, sys.argv[1:], env, [_row(candidate) for candidate in found.tried])
    except PbkvError as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(f"cannot use {problem.filename}: {problem.strerror}")
    show(_table(found, objective))
    typer.echo(_text(found, objective, point.fitted))


class _Progress:
    """Simulates cells with a bar, and counts all that were."""

    def __init__(self, jobs: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self._jobs = jobs
        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("simulating", total=0)
        self._total = 0

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._bar.stop()

    def __call__(self, cells: Sequence[GridCell]) -> Mapping[GridCell, dict[str, Any]]:
        from services.sim.grid import run_grid

        self._total += len(cells)
        self._bar.update(self._task, total=self._total)
        rows = {}
        for cell, row in run_grid(cells, self._jobs):
            rows[cell] = row
            self._bar.advance(self._task)
        return rows


def _table(found: Recommendation, objective: str) -> Table:
    from rich.table import Table

    table = Table(
        title="tried, stage by stage",
        caption=f"gain: {found.baseline.name} over this in {objective} workflow latency, "
        "± deviation over samples; * taken",
    )
    for column in ("stage", "candidate"):
        table.add_column(column)
    for column in (f"{objective} s", "gain", "p95 s", "hit %", "workflows/h"):
        table.add_column(column, justify="right")
    taken = [found.chosen.cell, found.at_a_time.cell]
    stage = ""
    for candidate in found.tried:
        if stage not in ("", candidate.stage):
            table.add_section()
        stage = candidate.stage
        mark = " *" if candidate.cell in taken else ""
        table.add_row(
            candidate.stage,
            candidate.name + mark,
            f"{candidate.mean:.1f}",
            # At another concurrency the baseline is no yardstick.
            "" if candidate.stage == "concurrency" else _gain(candidate),
            f"{candidate.latency_p95_s:.1f}",
            f"{100 * candidate.hit_rate:.1f}",
            f"{candidate.workflows_per_hour:.0f}",
        )
    return table


def _gain(candidate: Candidate) -> str:
    return f"{candidate.gain_mean:.2f}x ± {candidate.gain_std:.2f}"


def _text(found: Recommendation, objective: str, fitted: bool) -> str:
    from pbkv.settings import PBKV_QUEUE
    from services.sim.recommend import uses_forecasts

    cell, settings = found.chosen.cell, found.environment()
    engine = [f"{name}={value}" for name, value in settings.items()]
    if cell.variant.queue not in ("fcfs", PBKV_QUEUE):
        engine.append(f"--schedule-policy {cell.variant.queue}")
    lookahead = f"{cell.settings.lookahead_steps}, {cell.settings.gamma:g}"
    lines = [
        f"policy and queue:  {cell.variant.name}",
        f"K, gamma:          {lookahead if uses_forecasts(cell) else 'not used by this policy'}",
        f"host tier:         {cell.host_ratio:g} x the KV pool",
        f"workflows at once: {found.at_a_time.cell.point.concurrency} "
        f"(p95 {found.at_a_time.latency_p95_s:.0f} s, "
        f"{found.at_a_time.workflows_per_hour:.0f} an hour)",
        f"engine settings:   {' '.join(engine) or 'none, the stock engine'}",
        f"expected gain:     {_gain(found.chosen)} in {objective} workflow latency over "
        f"{found.baseline.name}, at {found.baseline.cell.point.concurrency} at a time",
    ]
    if found.chosen.gain_mean - 2.0 * found.chosen.gain_std <= 1.0:
        lines.append("No gain that chance does not explain: memory may not be short here.")
    if not fitted:
        lines.append("Costs are a roofline of data sheets, not measured on this GPU.")
    return "\n".join(lines)


def _summary(found: Recommendation) -> dict[str, Any]:
    cell = found.chosen.cell
    return {
        "variant": cell.variant.name,
        "lookahead_steps": cell.settings.lookahead_steps,
        "gamma": cell.settings.gamma,
        "host_ratio": cell.host_ratio,
        "concurrency": found.at_a_time.cell.point.concurrency,
        "baseline": found.baseline.name,
        "gain_mean": found.chosen.gain_mean,
        "gain_std": found.chosen.gain_std,
        "settings": found.environment(),
    }


def _row(candidate: Candidate) -> dict[str, Any]:
    cell = candidate.cell
    return {
        "stage": candidate.stage,
        "candidate": candidate.name,
        "policy": cell.variant.policy,
        "queue": cell.variant.queue,
        "lookahead_steps": cell.settings.lookahead_steps,
        "gamma": cell.settings.gamma,
        "host_ratio": cell.host_ratio,
        "concurrency": cell.point.concurrency,
        "objective": list(candidate.objective),
        "gain": list(candidate.gain),
        "hit_rate": candidate.hit_rate,
        "latency_p95_s": candidate.latency_p95_s,
        "workflows_per_hour": candidate.workflows_per_hour,
    }
