"""``pbkv evaluate``: predictors side by side on one workload."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.problem import refuse

if TYPE_CHECKING:
    from pbkv.predict.data import PromptedWorkflow
    from services.bench.report import ResultsFile
    from services.predict.grid import EvaluationPlan, TracedStates

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_ORIGIN = {
    "hover": (
        "Synthetic but for the claims: agents, call graph and notes are generated, and each fact "
        "that decides a branch is stated in the prompt in one of several wordings, wrongly in two "
        "of a hundred cases. The graph is fitted to the Markov rows of the paper's Table 3. Hidden "
        "states are those of a real model."
    ),
    "swebench": "Agents of recorded runs, or of the generated sample; no text, no hidden states.",
    "who-and-when": "Real logs of Magentic-One with their text; hidden states of a real model.",
}


@app.command()
def evaluate(
    workload: Annotated[str, typer.Option(help="hover, swebench or who-and-when.")] = "hover",
    family: Annotated[
        str, typer.Option(help="all, or a comma list such as graphsage,mlp/small,markov.")
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Trainings per trained predictor.")] = 3,
    train: Annotated[int, typer.Option(min=2, help="Training traces.")] = 1000,
    test: Annotated[int, typer.Option(min=1, help="Test traces, later than all others.")] = 500,
    sizes: Annotated[
        str, typer.Option(help="Comma list of further training sizes; empty for none.")
    ] = "100,300",
    layers: Annotated[
        str, typer.Option(help="Comma list of layers to scan, from 1 on; empty for none.")
    ] = "3,6,9,12,15,18,21,24,27",
    model: Annotated[
        str, typer.Option(help="Whose hidden states: smollm2, tiny, bench or a model folder.")
    ] = "smollm2",
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real data sets; default: a sample.")
    ] = None,
    data_seed: Annotated[int, typer.Option(help="Seed of the traces.")] = 1,
    json: Annotated[Path | None, typer.Option(help="Write rows to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to this file.")] = None,
) -> None:
    """Train every family on the first traces and score it on the last: Table 3, Figures 8 and 9."""
    from pbkv.errors import PbkvError
    from pbkv.predict.data import make_traces
    from pbkv.report import table_markdown, write_html
    from services.bench.report import ResultsFile, environment
    from services.models.errors import ModelError
    from services.predict.grid import EvaluationPlan, choose_variants
    from services.predict.page import evaluation_report, main_table, remaining_table, verdict

    command = sys.argv[1:]
    try:
        plan = EvaluationPlan(
            chosen=choose_variants(family),
            train=train,
            test=test,
            seeds=seeds,
            sizes=tuple(_numbers("sizes", sizes)),
            scan_layers=bool(layers),
        )
        workflows = make_traces(workload, train + test, seed=data_seed, data_dir=data)
        if len(workflows) < train + test:
            refuse(f"{workload} has {len(workflows)} traces; lower --train and --test")
        env = environment(
            workload=workload, model=model, data="sample" if data is None else "given", test=test
        )
        results = ResultsFile(json, command, env)
        traced = states_of(workflows, model, _numbers("layers", layers))
        _execute(plan, traced, results)
        results.finish()
        if html is not None:
            origin = _ORIGIN[workload]
            report = evaluation_report(results.rows, command, workload=workload, origin=origin)
            write_html(html, report)
    except (PbkvError, ModelError) as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(f"cannot write {problem.filename}: {problem.strerror}")
    typer.echo(table_markdown(main_table(results.rows, with_paper=workload == "hover")))
    remaining = remaining_table(results.rows)
    if remaining.rows:
        typer.echo(table_markdown(remaining))
    typer.echo(verdict(results.rows))


def states_of(workflows: Sequence[PromptedWorkflow], model: str, layers: list[int]) -> TracedStates:
    """Hidden states of all prompts, from the cache or computed now, with a progress bar."""
    from rich.console import Console
    from rich.progress import Progress

    from services.models import resolve_model
    from services.models.cache import default_cache_dir
    from services.predict.grid import TracedStates

    agents = [workflow.agents for workflow in workflows]
    if not all(workflow.has_text for workflow in workflows):
        return TracedStates(agents)
    from services.predict.state_cache import StateCache

    cache = StateCache(default_cache_dir(os.environ) / "states", resolve_model(model), layers)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("hidden states", total=len(workflows))
        states = cache.states(workflows, lambda done, total: progress.update(task, completed=done))
    return TracedStates(agents, cache.sources, states)


def _execute(plan: EvaluationPlan, traced: TracedStates, results: ResultsFile) -> None:
    """Run after run, each row written as soon as it is there."""
    from rich.console import Console
    from rich.progress import Progress

    from services.predict.grid import execute, plan_runs

    runs = plan_runs(plan, traced.sources)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("training", total=len(runs))
        for run, row in execute(runs, plan, traced):
            results.add(row)
            name = f"{run.family} {run.variant}".strip()
            progress.update(task, advance=1, description=f"{run.part}: {name}")


def _numbers(option: str, text: str) -> list[int]:
    from pbkv.errors import SettingsError

    try:
        values = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise SettingsError(
            f"--{option} must be whole numbers with commas: {text[:40]!r}"
        ) from None
    if any(value < 1 for value in values):
        raise SettingsError(f"--{option} must be above 0: {text[:40]!r}")
    return values
