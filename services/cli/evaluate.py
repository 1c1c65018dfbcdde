"""``pbkv evaluate``: predictors side by side on one workload."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pbkv.errors import PbkvError, SettingsError
from pbkv.hidden_source import NO_SOURCE, POST_NORM, layer_of, layer_source
from services.cli.outputs import check_writable
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
    curve_seeds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Trainings for --sizes, for --layers and, beside --layer, for post-norm.",
        ),
    ] = 3,
    layers: Annotated[
        str,
        typer.Option(
            help="Comma list of layers to scan, from 1 on; auto: every third; empty: none."
        ),
    ] = "auto",
    layer: Annotated[
        str,
        typer.Option(
            help="The main table on the hidden states of this layer, post-norm beside it; auto: "
            "the best of --layers, chosen on training traces."
        ),
    ] = "",
    model: Annotated[
        str, typer.Option(help="Whose hidden states: smollm2, tiny, bench or a model folder.")
    ] = "smollm2",
    live: Annotated[
        Path | None,
        typer.Option(
            help="Instead: serve this checkpoint, drive it with the --test traces, and compare its "
            "live accuracy with the offline one."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real data sets; default: a sample.")
    ] = None,
    data_seed: Annotated[int, typer.Option(help="Seed of the traces.")] = 1,
    json: Annotated[Path | None, typer.Option(help="Write rows to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to this file.")] = None,
) -> None:
    """Train every family on the first traces and score it on the last: Table 3, Figures 8 and 9.

    With --live nothing is trained: a checkpoint of pbkv train, by the same --train, --test,
    --model, --data and --data-seed, meets traces that it never saw.
    """
    from pbkv.predict.data import make_traces
    from pbkv.report import table_markdown, write_html
    from services.bench.report import ResultsFile, environment
    from services.models.errors import ModelError
    from services.predict.grid import EvaluationPlan, choose_variants
    from services.predict.page import evaluation_report, summary

    command = sys.argv[1:]
    try:
        plan = EvaluationPlan(
            chosen=choose_variants(family),
            train=train,
            test=test,
            seeds=seeds,
            sizes=tuple(_numbers("sizes", sizes)),
            curve_seeds=curve_seeds,
            scan_layers=bool(layers),
        )
        workflows = make_traces(workload, train + test, seed=data_seed, data_dir=data)
        if len(workflows) < train + test:
            refuse(f"{workload} has {len(workflows)} traces; lower --train and --test")
        if live is not None:
            _evaluate_live(live.resolve(), workflows[-test:], model)
            return
        check_writable(json)
        check_writable(html)
        env = environment(
            workload=workload, model=model, data="sample" if data is None else "given", test=test
        )
        results = ResultsFile(json, command, env)
        traced = states_of(workflows, model, layers, layer)
        if layer:
            chosen = source_of(layer, traced, train)
            plan = replace(plan, sources=(chosen, POST_NORM))
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
    for part in summary(results.rows, with_paper=workload == "hover"):
        typer.echo(part if isinstance(part, str) else table_markdown(part))


def states_of(
    workflows: Sequence[PromptedWorkflow], model: str, layers: str, layer: str
) -> TracedStates:
    """Hidden states of all prompts, from the cache or computed now, with a progress bar.

    They are those of :func:`layers_of`, and the post-norm states.
    """
    from rich.console import Console
    from rich.progress import Progress

    from services.models import resolve_model
    from services.models.cache import default_cache_dir
    from services.predict.grid import TracedStates

    agents = [workflow.agents for workflow in workflows]
    if not all(workflow.has_text for workflow in workflows):
        return TracedStates(agents)
    from services.predict.state_cache import StateCache

    path = resolve_model(model)
    cache = StateCache(
        default_cache_dir(os.environ) / "states", path, layers_of(layers, layer, path)
    )
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("hidden states", total=len(workflows))
        states = cache.states(workflows, lambda done, total: progress.update(task, completed=done))
    return TracedStates(agents, cache.sources, states)


def layers_of(layers: str, layer: str, model_path: Path) -> list[int]:
    """The layers whose states are needed: those to scan, and the one that was named."""
    from services.predict.encoder import block_count

    blocks = block_count(model_path)
    found = list(range(3, blocks, 3)) if layers == "auto" else _numbers("layers", layers)
    if layer not in ("", "auto"):
        found = sorted({*found, *_numbers("layer", layer)})
    if layer == "auto" and not found:
        raise SettingsError("--layer auto chooses among --layers, and there are none")
    if found and found[-1] >= blocks:
        raise SettingsError(f"layer {found[-1]}: the model has layers 1 to {blocks - 1}")
    return found


def source_of(layer: str, traced: TracedStates, train: int) -> str:
    """The source that ``layer`` names; ``auto`` is chosen on the training traces, aloud."""
    from rich.console import Console
    from rich.progress import Progress

    from services.predict.grid import choose_layer

    if not traced.sources:
        raise SettingsError("--layer needs a workload with text")
    if layer != "auto":
        return layer_source(int(layer))
    accuracy = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("choosing the layer", total=len(traced.sources) - 1)
        for source, mean in choose_layer(traced, train=train):
            accuracy[source] = mean
            progress.update(task, advance=1, description=f"{source}: {mean:.3f}")
    best = max(accuracy, key=lambda source: accuracy[source])
    scores = ", ".join(
        f"{source.removeprefix('layer ')} {accuracy[source]:.3f}" for source in accuracy
    )
    typer.echo(f"{best}, chosen by mean accuracy on held-out training traces: {scores}")
    return best


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


def _evaluate_live(checkpoint: Path, workflows: Sequence[PromptedWorkflow], model: str) -> None:
    """Print both accuracies per step."""
    import asyncio

    from rich.console import Console
    from rich.progress import Progress

    from pbkv.predict.checkpoint import read_hidden_source
    from services.engine.errors import EngineError
    from services.models import resolve_model
    from services.predict.live import compare

    if not all(workflow.has_text for workflow in workflows):
        refuse("--live needs a workload with text")
    calls = sum(len(workflow.calls) for workflow in workflows)
    source = read_hidden_source(checkpoint)
    layer = layer_of(source) if source != NO_SOURCE else None
    traced = states_of(workflows, model, "auto" if layer else "", str(layer) if layer else "")
    states = None if source == NO_SOURCE else traced.of(source)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("calls served", total=calls)
        try:
            found = asyncio.run(
                compare(
                    checkpoint,
                    workflows,
                    states,
                    resolve_model(model),
                    progress=lambda done: progress.update(task, completed=done),
                )
            )
        except (EngineError, ValueError) as problem:
            # An engine that ended also says its last log lines.
            refuse(str(problem).partition("\n")[0])
    for step, (now, before) in enumerate(zip(found.live, found.offline, strict=True), start=1):
        typer.echo(f"s{step}: live {now:.3f}, offline {before:.3f}, difference {now - before:+.3f}")
    for step, pair in enumerate(found.paired, start=1):
        typer.echo(
            f"s{step}, paired on {pair.forecasts} calls: engine's states {pair.first:.3f}, "
            f"offline {pair.second:.3f}, difference {pair.difference:+.3f} "
            f"(95 %: {pair.low:+.3f} to {pair.high:+.3f}), same agent named in {pair.same:.1%}, "
            f"largest difference of a probability {pair.largest_gap:.3f}"
        )
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in found.outcomes.items())
    typer.echo(f"{len(workflows)} workflows, {found.calls} calls; forecasts: {outcomes}")


def _numbers(option: str, text: str) -> list[int]:
    try:
        values = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise SettingsError(
            f"--{option} must be whole numbers with commas: {text[:40]!r}"
        ) from None
    if any(value < 1 for value in values):
        raise SettingsError(f"--{option} must be above 0: {text[:40]!r}")
    return values
