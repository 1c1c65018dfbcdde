"""``pbkv bench``: measurements, each with a table on the screen and ``--json FILE``."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from services.cli.outputs import check_writable
from services.cli.problem import BAD_INPUT, named_values, refuse

if TYPE_CHECKING:
    from services.bench.report import ResultsFile

Rows = Sequence[dict[str, Any]]

_console = Console(stderr=True)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Measure policies, and the router.",
)


@app.callback()
def bench() -> None:
    """Measure policies, or the router, all variants in one run."""


_VARIANTS_HELP = """Comma list of variants, POLICY[+SETTING...][/QUEUE]: he, session/lpm,
he+learned+newest/pbkv, he+oracle+gamma=0.9. A setting is an access model (direct, inherit,
learned), a tie rule (recency, newest, oldest-workflow), a predictor (none, markov, trained,
oracle), an eviction unit (node, page) or name=value of any other policy setting. Policies: lru,
kvflow, lae, he, pbkv, pbkv-aggressive, and the stock engine's stock-lru and session."""


@app.command()
def engine(
    workload: Annotated[str, typer.Option(help="hover or swebench.")] = "hover",
    policy: Annotated[str, typer.Option(help=_VARIANTS_HELP)] = "lru,lae,stock-lru,session",
    queue: Annotated[
        str,
        typer.Option(
            help="Comma list, of variants that name none: fcfs, lpm, hrrn, "
            "shortest-prefill-first, pbkv."
        ),
    ] = "fcfs",
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Workflows at a time; default: 24 hover, 16 swebench.")
    ] = None,
    workflows: Annotated[
        int | None, typer.Option(min=1, help="Per repeat; default: 48 hover, 20 swebench.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Each with other workflows.")] = 3,
    scale: Annotated[
        float | None,
        typer.Option(min=0.01, help="Factor on token counts; default: .3 hover, .05 swebench."),
    ] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(min=16, help="Device pool; default: the paper's pressure.")
    ] = None,
    pool_scale: Annotated[
        str,
        typer.Option(help="Comma list of multiples of the device pool, measured one by one."),
    ] = "1",
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
    predictor: Annotated[
        str,
        typer.Option(
            help="none; markov, which learns as it serves; trained: markov after workflows of "
            "another seed; oracle, which knows the scripts."
        ),
    ] = "markov",
    agent_graph: Annotated[str, typer.Option(help="Static graph of kvflow, as JSON.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the first repeat.")] = 1,
    json: Annotated[
        Path | None, typer.Option(help="Write rows to this file, after every measurement.")
    ] = None,
) -> None:
    """Replay the same workflows against the real engine under each variant, interleaved."""
    from pbkv.settings import PolicySettings
    from services.bench.engine import EngineBench, check_prompts, run_engine_bench
    from services.bench.engine_table import engine_table
    from services.bench.variant import check_settings, make_variants
    from services.bench.workload_defaults import defaults_of
    from services.models import resolve_model

    usual = defaults_of(workload)
    concurrency = concurrency or usual.concurrency
    scale = scale or usual.scale
    with _one_line_problems():
        variants = make_variants(policy.split(","), queue.split(","))
        settings = PolicySettings(
            access_model=access_model,
            tie_rule=tie_rule,
            predictor=predictor,
            agent_graph=agent_graph,
        )
        check_settings(variants, settings)
        setup = EngineBench(
            workload=workload,
            workflows=workflows or usual.workflows,
            concurrency=concurrency,
            repeats=repeats,
            scale=scale,
            seed=seed,
            kv_tokens=kv_tokens or usual.kv_tokens(concurrency, scale),
            max_running=max_running or max(1, concurrency // 4),
            host_ratio=host_ratio,
            context_length=context_length,
            data_dir=data,
            model_path=resolve_model(model),
            settings=settings,
            pool_scales=_factors(pool_scale),
        )
        check_prompts(setup)
        with _results(json, engine_table, model, data) as results:
            asyncio.run(run_engine_bench(setup, variants, _console.log, results.add))


@app.command()
def scheduler(
    policy: Annotated[
        str,
        typer.Option(help="Comma list of variants as in bench engine; stock-lru is the measure."),
    ] = "stock-lru,lru,lae,he,pbkv/pbkv",
    workload: Annotated[str, typer.Option(help="hover or swebench.")] = "hover",
    concurrency: Annotated[int, typer.Option(min=1, help="Workflows at a time.")] = 4,
    workflows: Annotated[
        int, typer.Option(min=1, help="Workflows per round: few, so that turns are short.")
    ] = 4,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds, each with other workflows.")] = 30,
    scale: Annotated[float, typer.Option(min=0.01, help="Factor on all token counts.")] = 0.3,
    host_ratio: Annotated[float, typer.Option(min=0.0, help="Host tier over device tier.")] = 0.0,
    context_length: Annotated[int, typer.Option(min=64)] = 16_384,
    model: Annotated[str, typer.Option(help="The smaller, the stricter.")] = "tiny",
    data: Annotated[
        Path | None, typer.Option(help="Folder with hover/ and swebench/; default: a sample.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first round.")] = 1,
    json: Annotated[
        Path | None, typer.Option(help="Write rows to this file, after every measurement.")
    ] = None,
) -> None:
    """CPU time of the scheduler per request, plug-in against stock, with room for everything."""
    from services.bench.scheduler import SchedulerBench, run_scheduler_bench, scheduler_table
    from services.bench.variant import check_settings, make_variants
    from services.models import resolve_model

    with _one_line_problems():
        variants = make_variants(policy.split(","), ["fcfs"])
        setup = SchedulerBench(
            workload=workload,
            workflows=workflows,
            concurrency=concurrency,
            repeats=repeats,
            scale=scale,
            seed=seed,
            host_ratio=host_ratio,
            context_length=context_length,
            data_dir=data,
            model_path=resolve_model(model),
        )
        check_settings(variants, setup.settings)
        with _results(json, scheduler_table, model, data) as results:
            asyncio.run(run_scheduler_bench(setup, variants, _console.log, results.add))


@app.command("router")
def router_command(
    streams: Annotated[str, typer.Option(help="Comma list of streams at a time.")] = "1,64,1000",
    turns: Annotated[int, typer.Option(min=1, help="Of each router, in changing order.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="Measured in every turn.")] = 4.0,
    gap_ms: Annotated[float, typer.Option(min=1, help="Between two chunks of a stream.")] = 100.0,
    chunks: Annotated[int, typer.Option(min=2, help="Of one answer.")] = 32,
    against: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL, another router that forwards to --endpoint-port; repeat it."),
    ] = None,
    endpoint_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the endpoint; default: a free one.")
    ] = 0,
    json: Annotated[
        Path | None, typer.Option(help="Write rows to this file, after every measurement.")
    ] = None,
) -> None:
    """What the router adds to a stream, beside the same streams without it, in turns."""
    import uvloop

    from services.bench.router import (
        RouterBench,
        check_pace,
        parse_streams,
        router_table,
        run_router_bench,
    )
    from services.bench.router_streams import Cadence

    with _one_line_problems():
        check_pace(gap_ms, seconds)
        setup = RouterBench(
            streams=parse_streams(streams),
            turns=turns,
            seconds=seconds,
            cadence=Cadence(gap_ms / 1000, chunks),
            others=named_values(against),
            endpoint_port=endpoint_port,
        )
        with _results(json, router_table, "calibration", None) as results:
            uvloop.run(run_router_bench(setup, _console.log, results.add))


@contextmanager
def _one_line_problems() -> Iterator[None]:
    """Whatever the user or the machine got wrong is one line and exit code 2."""
    from pbkv.errors import PbkvError
    from services.bench.drive import BenchError
    from services.engine import EngineError
    from services.models.errors import ModelError

    try:
        yield
    except (PbkvError, BenchError, EngineError, ModelError, OSError) as problem:
        typer.echo(f"pbkv: {problem}", err=True)
        raise typer.Exit(BAD_INPUT) from None


@contextmanager
def _results(
    path: Path | None, table: Callable[[Rows], Any], model: str, data: Path | None
) -> Iterator[ResultsFile]:
    """Where measurements go: the file after each, the table at the end, also of a run cut short."""
    from services.bench.report import ResultsFile, environment, show

    env = environment(model=model, data="sample" if data is None else "given")
    results = ResultsFile(path, sys.argv[1:], env)
    try:
        yield results
        results.finish()
    finally:
        if results.rows:
            show(table(results.rows))
    if path is not None:
        _console.log(f"wrote {path}")


def _factors(text: str) -> tuple[float, ...]:
    """Read a comma list of factors; ends the command on anything else."""
    try:
        factors = tuple(float(word) for word in text.split(","))
    except ValueError:
        factors = ()
    if not factors or not all(0.0 < factor < math.inf for factor in factors):
        refuse(f"--pool-scale {text[:40]!r} is not a comma list of numbers above 0")
    if len(set(factors)) < len(factors):
        refuse(f"--pool-scale {text[:40]!r} names a size twice")
    return factors


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
    from services.bench.policy import PolicyBench, parse_sizes, run_policy_bench
    from services.bench.policy_targets import policy_table, verdict_table
    from services.bench.report import environment, show, write_json

    check_writable(json)
    with _one_line_problems():
        setup = PolicyBench(
            nodes=parse_sizes(nodes),
            repeats=repeats,
            node_tokens=node_tokens,
            policy=policy,
            seed=seed,
        )
        rows = run_policy_bench(setup, _console.log)
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
        _console.log(f"wrote {json}")
