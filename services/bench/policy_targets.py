"""What ``pbkv bench policy`` is held against: Table 4 of the paper, and stock SGLang beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from services.bench.local_cache import TreeCore

TARGET_NODES = 50_000
STOCK_SPEEDUP = 10.0

PAPER_US = {
    ("evict", "mean_us"): 440.0,
    ("evict", "p99_us"): 810.0,
    ("score", "mean_us"): 1.53,
    ("prefetch", "mean_us"): 640.0,
    ("prefetch", "p99_us"): 1600.0,
}
"""Table 4: EvictDecision, ScoreUpdate per node, PrefetchDecision."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target, what was measured, and whether that meets it."""

    target: str
    measured: str
    met: bool


def policy_table(rows: list[dict[str, Any]]) -> Table:
    """One line per operation, implementation and size."""
    table = Table(title="microseconds of CPU time", caption="memory: bytes of policy data per node")
    table.add_column("op")
    table.add_column("implementation")
    for column in ("nodes", "mean", "p99"):
        table.add_column(column, justify="right")
    for row in sorted(rows, key=lambda row: row["op"]):
        if row["op"] == "memory":
            cells = (f"{row['bytes_per_node']:,.0f} B", "")
        else:
            cells = (f"{row['mean_us']:,.2f}", f"{row['p99_us']:,.2f}")
        table.add_row(row["op"], row["implementation"], f"{row['nodes']:,}", *cells)
    return table


def verdict_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="targets")
    for column in ("target", "measured", ""):
        table.add_column(column)
    for verdict in verdicts(rows):
        table.add_row(verdict.target, verdict.measured, "met" if verdict.met else "MISSED")
    return table


def verdicts(rows: list[dict[str, Any]]) -> list[Verdict]:
    """The targets that these rows can speak of."""
    return [*_paper(rows), *_growth(rows), *_against_stock(rows)]


def _paper(rows: list[dict[str, Any]]) -> Iterator[Verdict]:
    for (op, key), target in PAPER_US.items():
        row = _row(rows, op, TreeCore.PBKV, TARGET_NODES)
        if row is not None:
            name = key.removesuffix("_us")
            yield Verdict(
                f"{op} {name} at most {target:,.2f} us at {TARGET_NODES:,} nodes (paper, Table 4)",
                f"{row[key]:,.2f} us",
                row[key] <= target,
            )


def _growth(rows: list[dict[str, Any]]) -> Iterator[Verdict]:
    """From the smallest size to the largest, an operation may grow as log n does."""
    for op in ("evict", "score", "apply", "prefetch"):
        sizes = sorted(
            (row["nodes"], row["mean_us"])
            for row in rows
            if row["op"] == op and row["implementation"] == TreeCore.PBKV
        )
        if len(sizes) < 2:
            continue
        (few, short), (many, long) = sizes[0], sizes[-1]
        allowed, grown = math.log(many) / math.log(few), long / short
        yield Verdict(
            f"{op} from {few:,} to {many:,} nodes grows at most as log n, x{allowed:.2f}",
            f"x{grown:.2f}",
            grown <= allowed,
        )


def _against_stock(rows: list[dict[str, Any]]) -> Iterator[Verdict]:
    ours = _row(rows, "evict", TreeCore.PBKV, TARGET_NODES)
    stock = _row(rows, "evict", TreeCore.STOCK_PYTHON, TARGET_NODES)
    if ours is not None and stock is not None:
        speedup = stock["mean_us"] / ours["mean_us"]
        yield Verdict(
            f"evict at least {STOCK_SPEEDUP:.0f}x faster than stock's walk at {TARGET_NODES:,} "
            "nodes",
            f"{speedup:.1f}x",
            speedup >= STOCK_SPEEDUP,
        )


def _row(rows: list[dict[str, Any]], op: str, core: TreeCore, nodes: int) -> dict[str, Any] | None:
    for row in rows:
        if (row["op"], row["implementation"], row["nodes"]) == (op, core, nodes):
            return row
    return None
