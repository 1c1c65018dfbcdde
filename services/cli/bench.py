"""``pbkv bench``: measurements, each with a table on the screen and ``--json FILE``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, help="Measure policies side by side.")


@app.callback()
def bench() -> None:
    """Measure policies side by side, all variants in one run."""


@app.command()
def engine(
    workload: Annotated[str, typer.Option(help="hover or swebench.")] = "hover",
    policy: Annotated[
        str, typer.Option(help="Comma list: lru, lae, he, stock-lru, session, or lae/lpm.")
    ] = "lru,lae,stock-lru,session",
    queue: Annotated[
        str, typer.Option(help="Comma list: fcfs, lpm, hrrn, shortest-prefill-first, pbkv.")
    ] = "fcfs",
    concurrency: Annotated[int, typer.Option(min=1, help="Workflows at a time.")] = 24,
    workflows: Annotated[int, typer.Option(min=1, help="Workflows per repeat.")] = 48,
    repeats: Annotated[int, typer.Option(min=1, help="Each with other workflows.")] = 3,
    scale: Annotated[float, typer.Option(min=0.01, help="Factor on all token counts.")] = 0.3,
    kv_tokens: Annotated[
        int | None, typer.Option(min=16, help="Device pool; default: the paper's pressure.")
    ] = None,
    max_running: Annotated[
        int | None, typer.Option(min=1, help="Running requests; default concurrency / 4.")
    ] = None,
    host_ratio: Annotated[float, typer.Option(min=0.0, help="Host tier over device tier.")] = 0.0,
    context_length: Annotated[int, typer.Option(min=64)] = 16_384,
    model: Annotated[str, typer.Option(help="bench, tiny, smollm2 or a model folder.")] = "bench",
    data: Annotated[
        Path | None, typer.Option(help="Folder with hover/ and swebench/; default: a sample.")
    ] = None,
    access_model: Annotated[
        str, typer.Option(help="Of scored policies: direct, inherit or learned.")
    ] = "direct",
    tie_rule: Annotated[
        str, typer.Option(help="Of equal scores: recency, newest or oldest-workflow.")
    ] = "recency",
    agent_graph: Annotated[str, typer.Option(help="Static graph of kvflow, as JSON.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the first repeat.")] = 1,
    json: Annotated[Path | None, typer.Option(help="Write rows to this file.")] = None,
) -> None:
    """Replay the same workflows against the real engine under each policy, interleaved."""
    from pbkv.errors import PbkvError
    from pbkv.settings import PolicySettings
    from services.bench.drive import BenchError
    from services.bench.engine import EngineBench, default_kv_tokens, run_engine_bench
    from services.bench.report import engine_table, environment, show, write_json
    from services.bench.variant import check_settings, make_variants
    from services.engine import EngineError
    from services.models import resolve_model
    from services.models.errors import ModelError

    console = Console(stderr=True)
    try:
        variants = make_variants(policy.split(","), queue.split(","))
        setup = EngineBench(
            workload=workload,
            workflows=workflows,
            concurrency=concurrency,
            repeats=repeats,
            scale=scale,
            seed=seed,
            kv_tokens=kv_tokens or default_kv_tokens(concurrency, scale),
            max_running=max_running or max(1, concurrency // 4),
            host_ratio=host_ratio,
            context_length=context_length,
            data_dir=data,
            model_path=resolve_model(model),
            settings=PolicySettings(
                access_model=access_model, tie_rule=tie_rule, agent_graph=agent_graph
            ),
        )
        check_settings(variants, setup.settings)
        result = asyncio.run(run_engine_bench(setup, variants, console.log))
    except (PbkvError, BenchError, EngineError, ModelError) as problem:
        typer.echo(f"pbkv: {problem}", err=True)
        raise typer.Exit(2) from None
    show(engine_table(result.rows))
    if json is not None:
        env = environment(
            model=model,
            data="sample" if data is None else "given",
            prefill_1000_s=result.proportion.prefill_1000_s,
            decode_step_s=result.proportion.decode_step_s,
            decode_steps_per_1000_prefill_tokens=result.proportion.steps_per_1000_tokens,
        )
        write_json(json, sys.argv[1:], env, result.rows)
        console.log(f"wrote {json}")


@app.command("policy")
def policy_command(
    nodes: Annotated[
        str, typer.Option(help="Comma list of tree sizes.")
    ] = "1000,10000,50000,200000",
    repeats: Annotated[int, typer.Option(min=1, help="Of every operation, per size.")] = 200,
    node_tokens: Annotated[
        int, typer.Option(min=16, help="Tokens per node, in whole pages of 16.")
    ] = 128,
    policy: Annotated[str, typer.Option(help="The plug-in's policy.")] = "pbkv",
    seed: Annotated[int, typer.Option(help="Seed of the forecasts.")] = 1,
    json: Annotated[Path | None, typer.Option(help="Write rows to this file.")] = None,
) -> None:
    """Time every decision of the policy beside stock SGLang's Python and Rust tree cores."""
    from pbkv.errors import PbkvError
    from services.bench.drive import BenchError
    from services.bench.policy import PolicyBench, parse_sizes, run_policy_bench
    from services.bench.policy_targets import policy_table, verdict_table
    from services.bench.report import environment, show, write_json

    console = Console(stderr=True)
    try:
        setup = PolicyBench(
            nodes=parse_sizes(nodes),
            repeats=repeats,
            node_tokens=node_tokens,
            policy=policy,
            seed=seed,
        )
        rows = run_policy_bench(setup, console.log)
    except (PbkvError, BenchError) as problem:
        typer.echo(f"pbkv: {problem}", err=True)
        raise typer.Exit(2) from None
    show(policy_table(rows))
    show(verdict_table(rows))
    if json is not None:
        env = environment(
            workflows=72,
            agents=8,
            node_tokens=node_tokens,
            evict_tokens=setup.evict_tokens,
            policy=policy,
            clock="CPU time of the measuring thread",
        )
        write_json(json, sys.argv[1:], env, rows)
        console.log(f"wrote {json}")
