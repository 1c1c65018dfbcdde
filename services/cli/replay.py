"""``pbkv replay``: does the simulator find what the engine finds?"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.problem import refuse

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_SCALES = {"hover": 0.3, "swebench": 0.06, "financebench": 0.3}
_WORKFLOWS = {"hover": 20, "swebench": 8, "financebench": 16}


@app.command()
def replay(
    workload: Annotated[
        str, typer.Option(help="Comma list: hover, swebench, financebench.")
    ] = "hover,swebench,financebench",
    policy: Annotated[
        str, typer.Option(help="Comma list of policies of the plug-in.")
    ] = "lru,lae,he,pbkv",
    workflows: Annotated[int | None, typer.Option(min=1, help="Workflows per workload.")] = None,
    at_a_time: Annotated[int, typer.Option(min=1, help="Workflows whose calls mix.")] = 8,
    scale: Annotated[float | None, typer.Option(min=0.01, help="Factor on token counts.")] = None,
    kv_tokens: Annotated[int, typer.Option(min=256, help="Device pool.")] = 3072,
    host_ratio: Annotated[float, typer.Option(min=0, help="Host tier over device tier.")] = 0.0,
    context_length: Annotated[int, typer.Option(min=64, help="Longest prompt and reply.")] = 3000,
    model: Annotated[str, typer.Option(help="tiny, bench or a model folder.")] = "tiny",
    seed: Annotated[int, typer.Option(help="Chooses the workflows.")] = 1,
    data: Annotated[Path | None, typer.Option(help="Folder of the real data sets.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write rows to this file.")] = None,
) -> None:
    """Send the same calls, in the same order, through the simulator and through real SGLang."""
    from rich.console import Console

    from pbkv.errors import PbkvError, UnknownPolicy
    from pbkv.policy import POLICIES
    from pbkv.settings import PolicySettings
    from pbkv.sim.simulate import check
    from services.bench.drive import BenchError
    from services.bench.report import ResultsFile, environment, show
    from services.engine import EngineError
    from services.models import resolve_model
    from services.models.errors import ModelError
    from services.sim.replay import (
        ReplaySetup,
        ReplayWorkload,
        real_rows,
        simulated_rows,
        without_text,
    )
    from services.sim.workload import load_workload

    console = Console(stderr=True)
    try:
        names = workload.split(",")
        policies = policy.split(",")
        for name in policies:
            if name not in POLICIES:
                choices = ", ".join(POLICIES)
                raise UnknownPolicy(f"unknown policy {name!r}; choose from: {choices}")
        setup = ReplaySetup(
            workloads=tuple(
                ReplayWorkload(
                    name,
                    tuple(
                        map(
                            without_text,
                            load_workload(
                                name,
                                workflows or _WORKFLOWS.get(name, 16),
                                seed=seed,
                                scale=scale or _SCALES.get(name, 1.0),
                                data_dir=data,
                            ),
                        )
                    ),
                )
                for name in names
            ),
            policies=tuple(policies),
            at_a_time=at_a_time,
            kv_tokens=kv_tokens,
            host_ratio=host_ratio,
            model_path=resolve_model(model),
            context_length=context_length,
            settings=PolicySettings(queue_knowledge=False),
        )
        for each in setup.workloads:
            check(setup.simulation(policies[0]), each.scripts)
        results = ResultsFile(json, sys.argv[1:], environment(model=model))
        for row in simulated_rows(setup):
            results.add(row)

        def on_row(row: dict[str, Any]) -> None:
            results.add(row)
            console.log(f"{row['policy']}, {row['workload']}: hit {100 * row['hit_rate']:.1f} %")

        console.log(f"starting {len(policies)} engines: {', '.join(policies)}")
        asyncio.run(real_rows(setup, on_row))
        results.finish()
    except (PbkvError, ModelError) as problem:
        refuse(str(problem))
    except (BenchError, EngineError, OSError) as problem:
        typer.echo(f"pbkv: {problem}", err=True)
        raise typer.Exit(1) from None
    show(_table(results.rows))


def _table(rows: list[dict[str, Any]]) -> Table:
    """Simulator and engine side by side, and the difference in points."""
    from rich.table import Table

    table = Table(title="the same calls, simulated and on SGLang")
    for column in ("workload", "policy"):
        table.add_column(column)
    for column in ("hit % sim", "hit % SGLang", "difference", "host % sim", "host % SGLang"):
        table.add_column(column, justify="right")
    table.add_column("evicted tokens, sim / SGLang")
    pairs: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        pairs.setdefault((row["workload"], row["policy"]), {})[row["engine"]] = row
    for (workload, policy), pair in sorted(pairs.items()):
        sim, real = pair["sim"], pair["sglang"]
        hits = [100 * side["hit_rate"] for side in (sim, real)]
        hosts = [100 * side["host_hit_rate"] for side in (sim, real)]
        table.add_row(
            workload,
            policy,
            *(f"{hit:.1f}" for hit in hits),
            f"{hits[0] - hits[1]:+.2f}",
            *(f"{host:.1f}" for host in hosts),
            f"{_evicted(sim)} / {_evicted(real)}",
        )
    return table


def _evicted(row: dict[str, Any]) -> str:
    return ", ".join(f"{why} {tokens:,}" for why, tokens in sorted(row["evicted_tokens"].items()))
