"""What a grid found, for people: a table on the screen and a page."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table as ScreenTable

Rows = Sequence[dict[str, Any]]

_CAPTION = (
    "mean over seeds; hit: prompt tokens found on the device; latency: whole workflows; first "
    "call: time to its first token, of newcomers; simulated seconds"
)


def _mean(key: str, digits: int, factor: float = 1.0) -> Callable[[Rows], str]:
    return lambda rows: f"{factor * statistics.mean(row[key] for row in rows):.{digits}f}"


def _spread(rows: Rows) -> str:
    hits = [100.0 * row["hit_rate"] for row in rows]
    return f"{statistics.stdev(hits):.1f}" if len(hits) > 1 else ""


_COLUMNS: dict[str, Callable[[Rows], str]] = {
    "hit %": _mean("hit_rate", 1, 100.0),
    "+-": _spread,
    "host %": _mean("host_hit_rate", 1, 100.0),
    "latency s": _mean("latency_mean_s", 1),
    "p95 s": _mean("latency_p95_s", 1),
    "TTFT s": _mean("ttft_mean_s", 2),
    "first call p95 s": _mean("ttft_first_p95_s", 1),
    "p99 s": _mean("ttft_first_p99_s", 1),
    "longest wait s": lambda rows: f"{max(row['first_wait_max_s'] for row in rows):.0f}",
}


_CLUSTER_COLUMNS: dict[str, Callable[[Rows], str]] = {
    "replicas": lambda rows: f"{max(row['replicas_peak'] for row in rows)}",
    "replica hours": _mean("replica_hours", 2),
    "pins most / mean": lambda rows: (
        f"{_mean('pins_most', 0)(rows)} / {_mean('pins_mean', 1)(rows)}"
    ),
}


def _columns(rows: Rows) -> dict[str, Callable[[Rows], str]]:
    return _COLUMNS | (_CLUSTER_COLUMNS if "replicas" in rows[0] else {})


def grouped(rows: Rows) -> dict[tuple[float, str], list[dict[str, Any]]]:
    """Rows of all seeds by (pool scale, variant), in order of scale and first appearance."""
    groups: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["kv_scale"]):
        groups.setdefault((row["kv_scale"], row["variant"]), []).append(row)
    return groups


def speed_line(rows: Rows) -> str:
    """How fast the simulator was: invocations of all rows over their CPU time."""
    invocations = sum(row["invocations"] for row in rows)
    cpu_s = sum(row["cpu_s"] for row in rows)
    per_minute = 60.0 * invocations / max(cpu_s, 1e-9)
    return f"{invocations:,} invocations in {cpu_s:.1f} s of CPU time, {per_minute:,.0f} a minute"


def screen_table(rows: Rows) -> ScreenTable:
    """One line per pool size and variant."""
    table = ScreenTable(title=_title(rows), caption=_CAPTION)
    table.add_column("pool x", justify="right")
    table.add_column("variant")
    columns = _columns(rows)
    for column in columns:
        table.add_column(column, justify="right")
    scale_above = None
    for (scale, variant), group in grouped(rows).items():
        if scale_above not in (None, scale):
            table.add_section()
        scale_above = scale
        table.add_row(f"{scale:g}", variant, *(cell(group) for cell in columns.values()))
    return table


def write_page(path: Path, rows: Rows, command: Sequence[str]) -> None:
    """A self-contained HTML page with the table, and curves over pool sizes if there are some."""
    from pbkv.report import Block, Report, Section, Series, Table, Text, line_chart, write_html

    groups = grouped(rows)
    columns = _columns(rows)
    table = Table.of(
        ("pool x", "variant", *columns),
        [
            (f"{scale:g}", variant, *(cell(group) for cell in columns.values()))
            for (scale, variant), group in groups.items()
        ],
        caption=_CAPTION,
        row_headers=2,
    )
    blocks: list[Block] = [Text(f"Simulated with: pbkv {' '.join(command)}"), table]
    if len({scale for scale, _ in groups}) > 1:
        for key, label, factor in (
            ("hit_rate", "hit rate, %", 100.0),
            ("latency_mean_s", "mean workflow latency, s", 1.0),
            ("latency_p95_s", "p95 workflow latency, s", 1.0),
        ):
            lines = [
                Series(variant, *_curve(groups, variant, key, factor))
                for variant in dict.fromkeys(variant for _, variant in groups)
            ]
            blocks.append(
                line_chart(
                    [(_title(rows), lines)],
                    x_label="KV pool, multiple of the operating point's",
                    y_label=label,
                    alt=f"{label} over the size of the KV pool, one line per variant",
                )
            )
    write_html(path, Report(_title(rows), _CAPTION, (Section("Results", tuple(blocks)),)))


def _curve(
    groups: dict[tuple[float, str], list[dict[str, Any]]], variant: str, key: str, factor: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    points = [(scale, group) for (scale, name), group in groups.items() if name == variant]
    return (
        tuple(scale for scale, _ in points),
        tuple(factor * statistics.mean(row[key] for row in group) for _, group in points),
    )


def _title(rows: Rows) -> str:
    first = rows[0]
    load = f"{first['concurrency']} workflows at a time"
    if first.get("arrivals_per_s"):
        load = f"{first['arrivals_per_s']:g} new workflows a second"
    return f"{first['workload']}, {first['model']} on {first['gpu']}, {load}"
