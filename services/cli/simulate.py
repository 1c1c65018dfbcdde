"""``pbkv simulate``: policies and queue orders on a simulated GPU."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.outputs import check_writable
from services.cli.problem import refuse

if TYPE_CHECKING:
    from services.bench.report import ResultsFile
    from services.sim.grid import GridCell

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_POLICY_HELP = """Comma list of POLICY[+SETTING...][/QUEUE]: lru, session/lpm,
pbkv+learned+newest/pbkv. Policies: lru, session, kvflow, lae, he, pbkv, pbkv-aggressive;
oracle-predictor is pbkv with perfect forecasts, oracle knows the scripts, unlimited never
evicts."""


@app.command()
def simulate(
    workload: Annotated[
        str, typer.Option(help="hover, swebench, financebench, or a file of traces.")
    ] = "hover",
    model: Annotated[str, typer.Option(help="qwen3-14b or qwen3-32b.")] = "qwen3-32b",
    gpu: Annotated[str, typer.Option(help="a6000, l40s, a100, h100 or h200.")] = "a6000",
    policy: Annotated[str, typer.Option(help=_POLICY_HELP)] = "lru,lae,he,pbkv",
    queue: Annotated[
        str,
        typer.Option(
            help="Comma list, of policies that name none: fcfs, lpm, hrrn, "
            "shortest-prefill-first, pbkv."
        ),
    ] = "fcfs",
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="Workflows at a time; default: the paper's, per replica."),
    ] = None,
    workflows: Annotated[int | None, typer.Option(min=1, help="Workflows of one seed.")] = None,
    scale: Annotated[
        float | None, typer.Option(min=0.001, help="Factor on token counts of the workload.")
    ] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(min=16, help="KV pool; default: what the GPU's memory allows.")
    ] = None,
    kv_scale: Annotated[
        str, typer.Option(help="Comma list of multiples of the KV pool, simulated one by one.")
    ] = "1",
    max_running: Annotated[int | None, typer.Option(min=1, help="Running requests.")] = None,
    host_ratio: Annotated[float, typer.Option(min=0, help="Host tier over KV pool.")] = 1.0,
    replicas: Annotated[
        int | None,
        typer.Option(min=1, help="A cluster of so many engines behind a router; default: one."),
    ] = None,
    autoscale: Annotated[
        int | None, typer.Option(min=1, help="Grow the cluster up to so many replicas.")
    ] = None,
    per_replica: Annotated[
        int, typer.Option(min=1, help="Active workflows that a replica is wanted for.")
    ] = 64,
    start_up: Annotated[float, typer.Option(min=0, help="Seconds until a replica serves.")] = 90.0,
    down_delay: Annotated[
        float, typer.Option(min=0, help="Seconds of too many replicas before one drains.")
    ] = 300.0,
    arrivals: Annotated[
        float | None,
        typer.Option(min=1e-6, help="New workflows a second, instead of --concurrency."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many sets of workflows.")] = 1,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 1,
    access_model: Annotated[str, typer.Option(help="direct, inherit or learned.")] = "direct",
    tie_rule: Annotated[
        str, typer.Option(help="Of equal scores: recency, newest or oldest-workflow.")
    ] = "recency",
    lookahead: Annotated[int, typer.Option(min=1, help="K, the steps of a forecast.")] = 3,
    gamma: Annotated[float, typer.Option(help="Confidence decay of eq. (2).")] = 0.7,
    noise: Annotated[float, typer.Option(min=0, max=1, help="lambda of eq. (5).")] = 0.0,
    accuracy: Annotated[
        str,
        typer.Option(
            help="Comma list: forecasts that are right so often at each step, instead of learned."
        ),
    ] = "",
    agent_graph: Annotated[str, typer.Option(help="Static graph of kvflow, as JSON.")] = "",
    data: Annotated[Path | None, typer.Option(help="Folder of the real data sets.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: all cores.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write rows to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to this file.")] = None,
) -> None:
    """Simulate a workload under each variant: the same policies as in the engine, no GPU.

    With --replicas, --autoscale or --arrivals on a cluster with placement and pins; workflows,
    their concurrency and their arrivals are then those of all replicas together.
    """
    from pbkv.errors import PbkvError
    from pbkv.settings import PolicySettings
    from pbkv.sim import gpu_costs
    from pbkv.sim.cluster import ClusterShape
    from pbkv.sim.points import operating_point
    from services.bench.report import ResultsFile, environment, show
    from services.sim.cluster import ClusterPlan
    from services.sim.graph import default_graph
    from services.sim.grid import GridCell, cells_of
    from services.sim.table import screen_table, speed_line, write_page
    from services.sim.variant import make_variants

    try:
        variants = make_variants(policy.split(","), queue.split(","))
        costs = gpu_costs(model, gpu)
        point = operating_point(workload, costs)
        cluster = None
        if replicas or autoscale or arrivals:
            shape = ClusterShape(
                replicas=replicas or 1,
                max_replicas=autoscale or 0,
                workflows_per_replica=per_replica,
                start_up_s=start_up,
                down_delay_s=down_delay,
            )
            cluster = ClusterPlan(shape, arrivals or 0.0)
        engines = replicas or 1
        point = replace(
            point,
            workflows=workflows or engines * point.workflows,
            concurrency=concurrency or engines * point.concurrency,
            scale=scale or point.scale,
            kv_tokens=kv_tokens or point.kv_tokens,
            max_running_requests=max_running or point.max_running_requests,
        )
        base = GridCell(
            workload=workload,
            model=model,
            gpu=gpu,
            variant=variants[0],
            point=point,
            kv_scale=1.0,
            host_ratio=host_ratio,
            seed=seed,
            settings=PolicySettings(
                access_model=access_model,
                tie_rule=tie_rule,
                lookahead_steps=lookahead,
                gamma=gamma,
                forecast_noise=noise,
                agent_graph=agent_graph,
            ),
            accuracy=tuple(_numbers("accuracy", accuracy, 0.0, 1.0)) if accuracy else (),
            data_dir=data,
            cluster=cluster,
        )
        scripts = base.scripts()
        if not agent_graph:
            graph = default_graph(scripts)
            base = replace(base, settings=replace(base.settings, agent_graph=graph))
        scales = _numbers("kv-scale", kv_scale, 0.0, 1000.0)
        cells = cells_of(base, variants, scales, range(seed, seed + seeds))
        for cell in cells:
            cell.check(scripts)
        check_writable(json)
        check_writable(html)
        command = sys.argv[1:]
        env = environment(operating_point_fitted=point.fitted, costs=costs.source)
        results = ResultsFile(json, command, env)
        rows = _run(cells, jobs or os.cpu_count() or 1, results)
        if html is not None:
            write_page(html, rows, command)
    except PbkvError as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(f"cannot write {problem.filename}: {problem.strerror}")
    show(screen_table(rows))
    typer.echo(speed_line(rows))


def _run(cells: list[GridCell], jobs: int, results: ResultsFile) -> list[dict[str, Any]]:
    """All rows, in order of seed, pool and variant; each is kept as soon as it is there."""
    from rich.console import Console
    from rich.progress import Progress

    from services.sim.grid import run_grid

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=len(cells))
        for _, row in run_grid(cells, jobs):
            results.add(row)
            progress.advance(task)
    order = {
        (cell.seed, cell.kv_scale, cell.variant.name): place for place, cell in enumerate(cells)
    }
    results.rows.sort(key=lambda row: order[row["seed"], row["kv_scale"], row["variant"]])
    results.finish()
    return results.rows


def _numbers(option: str, text: str, above: float, most: float) -> list[float]:
    from pbkv.errors import SettingsError

    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingsError(f"--{option} must be numbers with commas, got {text[:40]!r}") from None
    if not all(above < value <= most for value in values):
        raise SettingsError(f"--{option} must be above {above:g} and at most {most:g}: {text[:40]}")
    return values
