"""Results on the screen: a table in the form of the paper's Table 1, then agents and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loadgen.records import MEANINGS, ErrorKind

Rows = Sequence[dict[str, Any]]


def result_tables(rows: Rows, workload: str, notes: Sequence[str] = ()) -> RenderableType:
    """``rows`` as :func:`loadgen.summary.rows` makes them."""
    total, *agents = rows
    parts: list[RenderableType] = [_whole(total, workload), _agents(agents)]
    if total["errors_by_kind"]:
        for kind, count in total["errors_by_kind"].items():
            said = total["error_examples"].get(kind)
            example = f"; the first: {said}" if said else ""
            meaning = MEANINGS[ErrorKind(kind)]
            parts.append(Text(f"errors: {count} {kind} ({meaning}){example}", style="red"))
    parts += [Text(f"note: {note}", style="yellow") for note in notes]
    return Group(*parts)


def _whole(total: dict[str, Any], workload: str) -> Table:
    table = Table(
        title=workload,
        caption="latency: whole workflows from when they were due; PA. TTFT: mean over all calls "
        "of the time to the first token; hit rate: cached over prompt tokens",
    )
    for name in ("workflows", "calls", "errors"):
        table.add_column(name, justify="right")
    for name in ("Lat. (s)", "p95", "PA. TTFT (s)", "p95", "Hit Rate (%)", "calls/s", "lag p99"):
        table.add_column(name, justify="right")
    table.add_row(
        f"{total['workflows_finished']}/{total['workflows']}",
        str(total["calls"]),
        str(total["errors"]),
        number(total["latency_mean_s"]),
        number(total["latency_p95_s"]),
        number(total["ttft_mean_s"], 3),
        number(total["ttft_p95_s"], 3),
        number(total["hit_rate"], 1, 100),
        number(total["calls_per_s"], 1),
        f"{number(total['lag_p99_s'], 1, 1000)} ms",
    )
    return table


def _agents(agents: Rows) -> Table:
    table = Table(title="per agent")
    table.add_column("agent")
    for name in ("calls", "errors", "latency s", "TTFT s", "TTFT p95 s", "hit %"):
        table.add_column(name, justify="right")
    for row in agents:
        table.add_row(
            row["agent"],
            str(row["calls"]),
            str(row["errors"]),
            number(row["latency_mean_s"]),
            number(row["ttft_mean_s"], 3),
            number(row["ttft_p95_s"], 3),
            number(row["hit_rate"], 1, 100),
        )
    return table


def number(value: float | None, digits: int = 2, factor: float = 1.0) -> str:
    """A number, or a dash where nothing was measured."""
    return "-" if value is None else f"{factor * value:.{digits}f}"
