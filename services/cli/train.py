"""``pbkv train``: a checkpoint for the engine, from a workload or from recorded traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.problem import refuse

if TYPE_CHECKING:
    from pbkv.predict.evaluation import Split

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def train(
    checkpoint: Annotated[Path, typer.Argument(help="Folder to write.")],
    workload: Annotated[str, typer.Option(help="hover, swebench or who-and-when.")] = "hover",
    family: Annotated[str, typer.Option(help="Such as graphsage or mlp/small.")] = "graphsage",
    traces: Annotated[int, typer.Option(min=2, help="Traces to learn from.")] = 1000,
    test: Annotated[int, typer.Option(min=1, help="Later traces to score it on.")] = 500,
    seed: Annotated[int, typer.Option(help="Of weights and draws.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="At most so many.")] = 60,
    model: Annotated[
        str, typer.Option(help="The served model: smollm2, tiny, bench or a model folder.")
    ] = "smollm2",
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real data sets; default: a sample.")
    ] = None,
    layer: Annotated[
        str,
        typer.Option(
            help="Learn from the hidden states of this layer; auto: the best, chosen on training "
            "traces; empty: the post-norm states. Engines capture what the checkpoint asks for."
        ),
    ] = "",
    data_seed: Annotated[int, typer.Option(help="Seed of the traces.")] = 1,
    from_traces: Annotated[
        Path | None,
        typer.Option(help="Learn from a trace file, .jsonl or .parquet, and not from a workload."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Learn from a running cluster, and publish.")
    ] = False,
    redis_url: Annotated[
        str, typer.Option(help="With --follow: Redis that the routers write traces to.")
    ] = "redis://127.0.0.1:6379/0",
    hidden: Annotated[
        Path | None, typer.Option(help="With --follow: folder of the replicas' hidden states.")
    ] = None,
    window: Annotated[int, typer.Option(help="With --follow: newest workflows kept.")] = 5000,
    train_every: Annotated[int, typer.Option(help="With --follow: new workflows a round.")] = 100,
    min_gain: Annotated[
        float, typer.Option(help="With --follow: accuracy by which a candidate must be better.")
    ] = 0.005,
    drift: Annotated[
        float, typer.Option(help="With --follow: loss of accuracy after which to go back.")
    ] = 0.05,
    idle_timeout: Annotated[
        float, typer.Option(help="With --follow: seconds of silence that end a workflow.")
    ] = 600.0,
    keep: Annotated[int, typer.Option(min=2, help="With --follow: versions kept.")] = 5,
) -> None:
    """Train one predictor and write its checkpoint, with its scores on later traces.

    With --follow it goes on until it is stopped: CHECKPOINT is then the folder that engines follow
    if their predictor_checkpoint names it, and --test counts the newest workflows, which judge.
    """
    name, _, variant = family.partition("/")
    if follow or from_traces is not None:
        from services.training import command
        from services.training.follow import FollowSettings

        with command.refusing(refuse):
            trainer = command.make_trainer(name, variant, seed=seed, epochs=epochs)
            if from_traces is not None:
                typer.echo(command.train_on_traces(from_traces, checkpoint, trainer, test=test))
                return
            settings = FollowSettings(
                window=window,
                held_out=test,
                train_every=train_every,
                min_gain=min_gain,
                drift=drift,
                idle_timeout_s=idle_timeout,
                hidden_dir=hidden,
            )
            command.run_follow(redis_url, checkpoint, trainer, settings, typer.echo, keep=keep)
        return
    from pbkv.errors import PbkvError
    from pbkv.hidden_source import POST_NORM
    from pbkv.predict.data import make_traces
    from pbkv.predict.evaluation import split_traces
    from services.cli.evaluate import source_of, states_of
    from services.models.errors import ModelError

    try:
        workflows = make_traces(workload, traces + test, seed=data_seed, data_dir=data)
        if len(workflows) < traces + test:
            refuse(f"{workload} has {len(workflows)} traces; lower --traces and --test")
        # With a layer, the states that pbkv evaluate keeps are used, and kept for it.
        traced = states_of(workflows, model, "auto" if layer else "", layer)
        source = source_of(layer, traced, traces) if layer else POST_NORM
        split = split_traces(traced.agents, traced.of(source), train=traces, test=test)
        _train(checkpoint, name, variant, split, source, seed=seed, epochs=epochs)
    except (PbkvError, ModelError) as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(f"cannot write {problem.filename}: {problem.strerror}")


def _train(
    checkpoint: Path,
    family: str,
    variant: str,
    split: Split,
    source: str,
    *,
    seed: int,
    epochs: int,
) -> None:
    import torch
    from rich.console import Console
    from rich.progress import Progress

    from pbkv.predict.families import make_network
    from pbkv.predict.network_checkpoint import save_network
    from pbkv.predict.network_predictor import network_forecasts
    from pbkv.predict.scores import score_steps
    from pbkv.predict.training import TrainingPlan, train_network

    torch.manual_seed(seed)
    network = make_network(family, variant, split.shape)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("training", total=epochs)
        result = train_network(
            network,
            split.training,
            split.validation,
            split.transitions,
            seed=seed,
            plan=TrainingPlan(epochs=epochs),
            progress=lambda epoch, loss: progress.update(
                task, completed=epoch, description=f"validation loss {loss:.3f}"
            ),
        )
    save_network(checkpoint, network, family, variant, split.vocabulary, source)
    probabilities, _ = network_forecasts(network, split.test.prefixes)
    scores = score_steps(probabilities, split.test.targets)
    accuracies = ", ".join(f"s{k} {step.accuracy:.3f}" for k, step in enumerate(scores, start=1))
    typer.echo(f"{checkpoint}: epoch {result.best_epoch} of {result.epochs}; {accuracies}")
