"""``pbkv experiments``: the paper's tables and figures on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.outputs import check_writable
from services.cli.problem import refuse

if TYPE_CHECKING:
    from services.experiments.ledger import RowLedger
    from services.experiments.measured import Row
    from services.sim.grid import GridCell

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Reproduce the paper in simulation.",
)

_POLICY_NODES = (1000, 50_000)
_POLICY_REPEATS = 100


@app.callback()
def experiments() -> None:
    """Reproduce the paper in simulation."""


@app.command()
def paper(
    out: Annotated[Path, typer.Option(help="Folder of the report and of finished rows.")] = Path(
        "out/paper"
    ),
    only: Annotated[
        str,
        typer.Option(
            help="Comma list: table1, table4, bounds, figure5a, figure5b, figure5c, figure6, "
            "figure10, figure11, figure12, regimes, product."
        ),
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Sets of workflows, for Tables 1 and 2.")] = 10,
    sweep_seeds: Annotated[int, typer.Option(min=1, help="The same for everything else.")] = 5,
    workflows: Annotated[
        int | None, typer.Option(min=1, help="Workflows of a set; default: the operating point's.")
    ] = None,
    policy_bench: Annotated[
        Path | None,
        typer.Option(help="JSON of pbkv bench policy for Table 4; default: measured now."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the real data sets.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: all cores.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all rows to this file.")] = None,
) -> None:
    """Simulate the paper's experiments and write paper.html and paper.md.

    Finished rows are kept in the folder: the same command goes on where it was cut short.
    """
    from pbkv.errors import PbkvError
    from services.bench.report import environment, write_json
    from services.experiments.catalogue import TABLE4, cells_of, choose
    from services.experiments.ledger import RowLedger
    from services.experiments.measured import Measured
    from services.experiments.page import build, write
    from services.experiments.scope import Scope

    try:
        names = choose(only)
        scope = Scope(seeds, sweep_seeds, workflows, data)
        cells = cells_of(names, scope)
        given = None if policy_bench is None else _rows_of(policy_bench)
        for path in (json, out / "paper.html", out / "paper.md"):
            check_writable(path)
        ledger = RowLedger(out / "rows.jsonl")
        problem = ""
        policy_rows: list[Row] = []
        if TABLE4 in names:
            policy_rows, problem = (given, "") if given is not None else _policy_rows(ledger)
        rows = _simulate(cells, ledger, jobs or os.cpu_count() or 1)
        ledger.close()
        env = environment()
        report = build(
            names,
            scope,
            Measured(rows),
            policy_rows=policy_rows,
            policy_problem=problem,
            env=env,
        )
        page, markdown = write(report, out)
        if json is not None:
            write_json(json, sys.argv[1:], env, [*rows.values(), *policy_rows])
    except PbkvError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"cannot use {error.filename}: {error.strerror}")
    typer.echo(f"wrote {page} and {markdown}")


def _simulate(cells: Sequence[GridCell], ledger: RowLedger, jobs: int) -> dict[GridCell, Row]:
    """Rows of all cells; those that the ledger has are not simulated again."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from services.sim.grid import run_grid

    rows = {cell: row for cell in cells if (row := ledger.get(cell)) is not None}
    if not rows and cells:
        cells[0].check(cells[0].scripts())
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=len(cells), completed=len(rows))
        for cell, row in run_grid([cell for cell in cells if cell not in rows], jobs):
            rows[cell] = row
            ledger.add(cell, row)
            progress.advance(task)
    return rows


def _policy_rows(ledger: RowLedger) -> tuple[list[dict[str, Any]], str]:
    """Rows of ``pbkv bench policy``, and why there are none."""
    from rich.console import Console

    from services.bench.drive import BenchError
    from services.bench.policy import PolicyBench, run_policy_bench

    bench = PolicyBench(nodes=_POLICY_NODES, repeats=_POLICY_REPEATS)
    known = ledger.get(bench)
    if known is not None:
        return known, ""
    try:
        rows = run_policy_bench(bench, Console(stderr=True).log)
    except BenchError as problem:
        return [], str(problem)
    ledger.add(bench, rows)
    return rows, ""


def _rows_of(path: Path) -> list[dict[str, Any]]:
    import orjson

    from pbkv.errors import SettingsError

    try:
        rows = orjson.loads(path.read_bytes())["rows"]
        for row in rows:
            row["op"], row["implementation"], row["nodes"]
    except (ValueError, KeyError, TypeError):
        raise SettingsError(f"{path} is not a file of pbkv bench policy --json") from None
    return list(rows)
