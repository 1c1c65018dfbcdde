"""``pbkv load``: agent workflows as load on any OpenAI-compatible endpoint."""

from __future__ import annotations

import sys
import uuid
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.outputs import cannot_write, check_writable, without_key
from services.cli.problem import refuse

if TYPE_CHECKING:
    from loadgen.measure import LoadPlan, OpenRunner
    from loadgen.run import WorkflowRunner
    from loadgen.target import Target

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def load() -> None:
    """Agent workflows as load on any OpenAI-compatible endpoint."""


@app.command("run")
def run_command(
    workload: Annotated[
        str, typer.Option(help="hover, swebench, financebench, or a file of traces.")
    ] = "hover",
    url: Annotated[str, typer.Option(help="The endpoint.")] = "http://127.0.0.1:8000",
    workflows: Annotated[
        int | None, typer.Option(min=1, help="How many; default 50, or all of a file.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="At a time; default 8 in a closed loop, else no limit."),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0, help="Workflows a second: an open loop (Poisson).")
    ] = 0.0,
    arrivals: Annotated[
        str, typer.Option(help="closed, poisson, gamma, ramp or trace; default by --rate.")
    ] = "",
    burstiness: Annotated[float, typer.Option(help="Of gamma: 1 is Poisson.")] = 2.0,
    rate_to: Annotated[float, typer.Option(help="Of ramp: the rate at its end.")] = 0.0,
    ramp: Annotated[float, typer.Option(help="Of ramp: its length in seconds.")] = 60.0,
    speed: Annotated[float, typer.Option(help="Of trace: how much faster.")] = 1.0,
    warm_up: Annotated[
        int, typer.Option(min=0, help="Workflows that run first and are not measured.")
    ] = 0,
    duration: Annotated[
        float | None, typer.Option(min=0, help="Start no workflow after so many seconds.")
    ] = None,
    pause_scale: Annotated[float, typer.Option(min=0, help="Of think and tool times.")] = 1.0,
    scale: Annotated[float, typer.Option(min=0.001, max=100, help="Of all token counts.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of workflows and arrivals.")] = 0,
    data: Annotated[Path | None, typer.Option(help="Folder of the real data sets.")] = None,
    shared_context: Annotated[
        bool, typer.Option(help="Of a captured trace: all agents share one transcript.")
    ] = False,
    model: Annotated[str, typer.Option(help="Default: the first that the endpoint lists.")] = "",
    api_key: Annotated[
        str, typer.Option(envvar="OPENAI_API_KEY", show_envvar=True, help="The key.")
    ] = "",
    ca_file: Annotated[Path | None, typer.Option(help="Certificates to trust.")] = None,
    request_timeout: Annotated[float, typer.Option(help="Seconds for one call.")] = 600.0,
    exact_lengths: Annotated[
        bool, typer.Option(help="Answers as long as scripted, by ignore_eos.")
    ] = True,
    framework: Annotated[
        str,
        typer.Option(
            help="Run the workload's real program: langgraph (hover), autogen (swebench), crewai "
            "(financebench), or auto; default: its scripts, without a framework."
        ),
    ] = "",
    decisions: Annotated[
        str, typer.Option(help="Of a program: workload (its seeded plan) or model.")
    ] = "workload",
    agents_python: Annotated[
        str, typer.Option(help="A Python that has the framework; default: .venv-agents.")
    ] = "",
    name: Annotated[str, typer.Option(help="What compare calls this run.")] = "",
    json: Annotated[Path | None, typer.Option(help="Write rows and samples here.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page here.")] = None,
) -> None:
    """Run workflows against an endpoint and report latency, TTFT and cache hit rate."""
    import uvloop
    from rich.console import Console

    from loadgen.arrivals import ArrivalKind, Arrivals
    from loadgen.measure import LoadPlan, measure
    from loadgen.progress import live_progress
    from loadgen.results import write_results
    from loadgen.run import Pace
    from loadgen.source import load_source
    from loadgen.summary import rows
    from loadgen.table import result_tables
    from loadgen.target import Target
    from pbkv.errors import PbkvError
    from pbkv.trace.replay import ContextLayout
    from pbkv.workload import WORKLOADS
    from services.bench.report import environment, show

    try:
        kinds = [str(kind) for kind in ArrivalKind]
        chosen = arrivals or ("poisson" if rate > 0 else "closed")
        if chosen not in kinds:
            refuse(f"--arrivals must be one of {', '.join(kinds)}, got {chosen[:40]!r}")
        kind = ArrivalKind(chosen)
        if rate > 0 and kind in (ArrivalKind.CLOSED, ArrivalKind.TRACE):
            refuse(f"--rate says when workflows arrive, and so does --arrivals {kind}: choose one")
        if decisions != "workload" and not framework:
            refuse("--decisions is for a program: choose one with --framework")
        count = workflows or (50 if workload in WORKLOADS else None)
        if concurrency is None and kind is ArrivalKind.CLOSED:
            concurrency = 8
        plan = LoadPlan(
            source=load_source(
                workload,
                None if count is None else count + (warm_up if workload in WORKLOADS else 0),
                seed=seed,
                scale=scale,
                data_dir=data,
                layout=ContextLayout.SHARED if shared_context else ContextLayout.PRIVATE,
            ),
            target=Target.of(
                url,
                api_key=api_key,
                model=model,
                ca_file=ca_file,
                request_timeout_s=request_timeout,
                exact_lengths=exact_lengths,
            ),
            pace=Pace(concurrency, warm_up, duration),
            arrivals=Arrivals(kind, rate, burstiness, rate_to, ramp, speed),
            prefix=f"load-{uuid.uuid4().hex[:8]}",
            seed=seed,
            pause_scale=pause_scale,
        )
        for path in (json, html):
            check_writable(path)
        open_runner = _programs(plan, framework, decisions, agents_python, scale, data)
        watch = live_progress(len(plan.source.scripts), Console(stderr=True))
        measured = uvloop.run(measure(plan, open_runner=open_runner, watch=watch))
    except (PbkvError, OSError) as problem:
        refuse(str(problem))
    table_rows = rows(measured.records)
    # First of all: nothing that goes wrong with a file takes it away.
    show(result_tables(table_rows, plan.source.name, measured.notes))
    command = without_key(sys.argv[1:])
    try:
        if json is not None:
            about = environment(
                workload=plan.source.name,
                name=name or (json.stem if json else ""),
                model=measured.model,
                url=plan.target.url,
                seed=seed,
                scale=scale,
                pace=plan.describe(),
            )
            write_results(
                json, measured.records, command=command, environment=about, notes=measured.notes
            )
        if html is not None:
            from loadgen.page import write_page

            write_page(
                html,
                measured.records,
                workload=plan.source.name,
                model=measured.model,
                url=plan.target.url,
                command=command,
                notes=measured.notes,
                pace=plan.describe(),
            )
    except OSError as problem:
        refuse(cannot_write(problem))
    if not any(row["calls"] > row["errors"] for row in table_rows[:1]):
        raise typer.Exit(1)


@app.command("compare")
def compare_command(
    first: Annotated[Path, typer.Argument(help="Results of a run: its --json file.")],
    second: Annotated[Path, typer.Argument(help="Those of the other.")],
    html: Annotated[Path | None, typer.Option(help="Write a page here.")] = None,
) -> None:
    """Compare two runs, with confidence intervals."""
    from loadgen.compare import compare
    from loadgen.comparison_table import caveats, comparison_table, headline
    from loadgen.results import read_results
    from pbkv.errors import PbkvError
    from services.bench.report import show

    try:
        check_writable(html)
        runs = read_results(first), read_results(second)
        found = compare(*runs)
        if html is not None:
            from loadgen.comparison_page import write_comparison

            write_comparison(html, *runs, found)
    except PbkvError as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(cannot_write(problem))
    show(comparison_table(*runs, found))
    for line in (headline(*runs, found), *caveats(*runs)):
        typer.echo(line)


@app.command("data")
def data_command(
    names: Annotated[list[str], typer.Argument(help="hover, financebench.", metavar="WORKLOAD...")],
    out: Annotated[Path, typer.Option(help="The folder, for --data of the other commands.")] = Path(
        "data"
    ),
    source: Annotated[str, typer.Option(help="A mirror of raw.githubusercontent.com.")] = "",
) -> None:
    """Fetch the public data set of a workload, pinned by commit and hash; a cut one continues."""
    from loadgen.datasets import DATA_SETS, SOURCE, check_names, fetch_data
    from loadgen.errors import DownloadFailed
    from pbkv.errors import PbkvError

    try:
        check_names(names)
        for name in dict.fromkeys(names):
            path, fetched = fetch_data(name, out, source=source or SOURCE)
            said = "fetched" if fetched else "there already"
            typer.echo(f"{path}: {said} ({DATA_SETS[name].licence})")
    except DownloadFailed as problem:
        typer.echo(f"pbkv: {problem}", err=True)
        raise typer.Exit(1) from None
    except PbkvError as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(cannot_write(problem))
    typer.echo(f"use it with --data {out}")


@app.command("overhead")
def overhead_command(
    concurrency: Annotated[int, typer.Option(min=1, help="Workflows streaming at a time.")] = 2000,
    rate: Annotated[float, typer.Option(min=0.1, help="Calls a second.")] = 500.0,
    duration: Annotated[float, typer.Option(min=1, help="Seconds that workflows arrive.")] = 60.0,
    json: Annotated[Path | None, typer.Option(help="Write the row here.")] = None,
) -> None:
    """Measure the load generator itself, against an endpoint with known times."""
    import uvloop
    from rich.table import Table

    from loadgen.overhead import measure_overhead, verdict
    from pbkv.errors import PbkvError
    from services.bench.report import environment, show, write_json

    try:
        check_writable(json)
        row = uvloop.run(measure_overhead(concurrency, rate, duration))
        if json is not None:
            write_json(json, sys.argv[1:], environment(), [row])
    except PbkvError as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(cannot_write(problem))
    table = Table(title="the load generator's own lateness and error")
    table.add_column("measure")
    table.add_column("value", justify="right")
    for name, value in row.items():
        shown = "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
        table.add_row(name, shown)
    show(table)
    typer.echo(verdict(row))


@app.command("demo")
def demo_command(
    workload: Annotated[str, typer.Option(help="hover, swebench or financebench.")] = "hover",
    workflows: Annotated[int, typer.Option(min=1, help="How many on each stack.")] = 48,
    concurrency: Annotated[int, typer.Option(min=1, help="At a time.")] = 24,
    model: Annotated[str, typer.Option(help="As in pbkv up.")] = "bench",
    out: Annotated[Path, typer.Option(help="Folder for results, page and logs.")] = Path(
        "out/demo"
    ),
) -> None:
    """Compare LRU with PBKV: two stacks one after the other, and a page that explains it."""
    import asyncio

    from loadgen.compare import compare
    from loadgen.comparison_page import write_comparison
    from loadgen.comparison_table import caveats, comparison_table, headline
    from loadgen.results import read_results
    from pbkv.errors import PbkvError
    from services.bench.report import show
    from services.demo import Demo, DemoFailed

    def say(line: str) -> None:
        typer.echo(line, err=True)

    try:
        check_writable(out / "demo.html")
        demo = Demo(workload, workflows, concurrency, model, out)
        first, second = (read_results(path) for path in asyncio.run(demo.run(say)))
        found = compare(first, second)
        write_comparison(out / "demo.html", first, second, found)
    except (PbkvError, DemoFailed) as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(cannot_write(problem))
    show(comparison_table(first, second, found))
    for line in (headline(first, second, found), *caveats(first, second)):
        typer.echo(line)
    typer.echo(f"the page: {out / 'demo.html'}")


def _programs(
    plan: LoadPlan,
    framework: str,
    decisions: str,
    python: str,
    scale: float,
    data: Path | None,
) -> OpenRunner | None:
    """The real program of the workload; None to replay its scripts."""
    if not framework:
        return None
    from loadgen.measure import Clock
    from loadgen.programs.plan import Decisions
    from loadgen.programs.runner import agents_python, open_programs
    from loadgen.programs.wire import FRAMEWORKS, ProgramPlan

    workload = plan.source.name
    if framework not in ("auto", FRAMEWORKS.get(workload)):
        pairs = ", ".join(f"{name} {of}" for name, of in FRAMEWORKS.items())
        refuse(f"no program of {workload[:40]} in {framework[:40]}; there are: {pairs}")
    if decisions not in list(Decisions):
        refuse(f"--decisions must be workload or model, got {decisions[:40]!r}")
    interpreter = agents_python(workload, python)

    def opened(
        session: object, target: Target, clock: Clock
    ) -> AbstractAsyncContextManager[WorkflowRunner]:
        wire = ProgramPlan(
            workload=workload,
            count=len(plan.source.scripts),
            seed=plan.seed,
            scale=scale,
            data_dir=str(data.resolve()) if data else "",
            decisions=decisions,
            url=target.url,
            model=target.model,
            api_key=target.api_key,
            prefix=plan.prefix,
            pause_scale=plan.pause_scale,
            exact_lengths=target.exact_lengths,
            request_timeout_s=target.request_timeout_s,
        )
        return open_programs(interpreter, wire, clock, target.ca_file)

    return opened
