"""``pbkv trace``: traces from a running cluster, from other systems, and what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pbkv.errors import InvalidTrace
from pbkv.trace import (
    InvocationRecord,
    RecordKind,
    TracedCall,
    WorkflowTrace,
    read_traces,
    workflows_of,
    write_traces,
)
from services.cli.problem import refuse

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Export, join, import and look at traces.",
)

_SHOWN_AGENTS = 12

OutFile = Annotated[Path, typer.Argument(help="Ends with .jsonl or .parquet.")]
TraceFile = Annotated[Path, typer.Argument(help="A trace file, .jsonl or .parquet.")]


@app.callback()
def trace() -> None:
    """Export, join, import and look at traces."""


@app.command()
def export(
    out: OutFile,
    redis_url: Annotated[
        str, typer.Option(help="Redis that the routers write to.")
    ] = "redis://127.0.0.1:6379/0",
) -> None:
    """Write what the stream of a running cluster holds now to a file."""
    from services.training.errors import TrainingError
    from services.training.stream import TraceStream

    try:
        stream = TraceStream(redis_url)
        count = _write(out, map(TracedCall, stream.read_all()))
    except TrainingError as problem:
        refuse(str(problem))
    if stream.malformed:
        typer.echo(f"pbkv: {stream.malformed} entries of the stream are no records", err=True)
    typer.echo(f"wrote {count} records to {out}")


@app.command("join")
def join_command(
    traces: TraceFile,
    out: Annotated[Path, typer.Argument(help="Ends with .parquet.")],
    hidden: Annotated[Path, typer.Option(help="Folder of the replicas' hidden states.")],
) -> None:
    """Put the hidden states that replicas wrote beside the calls they are of, by request id."""
    from pbkv.trace.files import is_parquet
    from pbkv.trace.hidden import join, read_states

    found = 0

    def counted(calls: Iterable[TracedCall]) -> Iterable[TracedCall]:
        nonlocal found
        for call in calls:
            found += call.hidden_state is not None
            yield call

    try:
        if not is_parquet(out):
            refuse(f"{out.name} must end with .parquet: JSON lines hold no hidden states")
        records = (call.record for call in read_traces(traces))
        count = _write(out, counted(join(records, read_states(hidden))))
    except InvalidTrace as problem:
        refuse(str(problem))
    typer.echo(f"wrote {count} records to {out}, {found} with a hidden state")


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="The log of the other system.")],
    out: OutFile,
    source: Annotated[str, typer.Option("--from", help="langsmith, otel, autogen or crewai.")],
    tenant: Annotated[str, typer.Option(help="Tenant of the imported workflows.")] = "imported",
    finished: Annotated[
        bool, typer.Option("--finished", help="All workflows in the log are over.")
    ] = False,
) -> None:
    """Read another system's log as traces; no prompts and no answers are taken over."""
    from pbkv.trace.importers import import_traces
    from pbkv.trace.importers.calls import end_all

    try:
        records = import_traces(source, file, tenant=tenant)
        if not records:
            refuse(f"{file} holds no finished model call of {source}")
        count = _write(out, map(TracedCall, end_all(records) if finished else records))
    except InvalidTrace as problem:
        refuse(str(problem))
    typer.echo(f"wrote {count} records to {out}")


@app.command()
def show(
    traces: TraceFile,
    workflow: Annotated[str, typer.Option(help="Show the calls of this one.")] = "",
) -> None:
    """What is in a trace file: workflows, agents, lengths; or the calls of one workflow."""
    try:
        calls = list(read_traces(traces))
    except InvalidTrace as problem:
        refuse(str(problem))
    found = workflows_of(calls)
    console = Console()
    if not workflow:
        console.print(_summary(calls, found))
        console.print(_agents(found))
        return
    chosen = [w for w in found if workflow in (w.workflow_id, w.calls[0].record.workflow)]
    if not chosen:
        refuse(f"{traces} holds no workflow {workflow[:80]!r}")
    for one in chosen:
        console.print(_calls(one))


def _write(out: Path, calls: Iterable[TracedCall]) -> int:
    try:
        return write_traces(out, calls)
    except InvalidTrace as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(f"{out}: {problem.strerror}")


def _summary(calls: list[TracedCall], workflows: list[WorkflowTrace]) -> Table:
    records = [call.record for call in calls if call.record.kind is RecordKind.CALL]
    prompt = sum(record.prompt_tokens or 0 for record in records)
    cached = sum(record.cached_tokens or 0 for record in records)
    table = Table(show_header=False)
    for name, value in (
        ("calls", len(records)),
        ("failed", sum(bool(record.error) for record in records)),
        ("workflows", len(workflows)),
        ("of these with a known end", sum(workflow.ended for workflow in workflows)),
        ("prompt tokens", prompt),
        ("of these cached", f"{cached / prompt:.1%}" if prompt else "-"),
        ("completion tokens", sum(record.completion_tokens or 0 for record in records)),
        ("hidden states", sum(call.hidden_state is not None for call in calls)),
    ):
        table.add_row(name, str(value))
    return table


def _agents(workflows: list[WorkflowTrace]) -> Table:
    served: Counter[str] = Counter()
    following: dict[str, Counter[str]] = {}
    for workflow in workflows:
        served.update(workflow.agents)
        nexts = [*workflow.agents[1:], *(["END"] if workflow.ended else [])]
        for agent, after in zip(workflow.agents, nexts, strict=False):
            following.setdefault(agent, Counter())[after] += 1
    table = Table("agent", "calls", "followed by")
    for agent, count in served.most_common(_SHOWN_AGENTS):
        nexts_of = following.get(agent, Counter())
        total = nexts_of.total()
        words = [f"{name} {times / total:.0%}" for name, times in nexts_of.most_common(3)]
        table.add_row(agent, str(count), ", ".join(words))
    return table


def _calls(workflow: WorkflowTrace) -> Table:
    title = f"{workflow.workflow_id}, {'ended' if workflow.ended else 'end not known'}"
    table = Table("step", "agent", "prompt", "cached", "answer", "seconds", "finish", title=title)
    for call in workflow.calls:
        table.add_row(*_cells(call.record))
    return table


def _cells(record: InvocationRecord) -> list[str]:
    counts = (record.prompt_tokens, record.cached_tokens, record.completion_tokens)
    return [
        str(record.step),
        record.agent,
        *("-" if count is None else str(count) for count in counts),
        f"{record.finished_at_s - record.sent_at_s:.2f}",
        record.error or record.finish_reason,
    ]
