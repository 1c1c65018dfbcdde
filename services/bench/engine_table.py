"""The table of ``pbkv bench engine``: one line per pool size and variant, mean over repeats."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

Rows = Sequence[dict[str, Any]]

_CAPTION = (
    "hit: prompt tokens found on the device; latency: whole workflows; first call: time to its "
    "first token, of the newcomers"
)


def engine_table(rows: Rows) -> Table:
    """What was measured so far, with the spread of the hit rate over repeats."""
    table = Table(title="mean over repeats", caption=_CAPTION)
    table.add_column("pool x", justify="right")
    table.add_column("variant")
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    groups: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kv_scale"], row["variant"]), []).append(row)
    scale_above = None
    for (pool_scale, variant), group in groups.items():
        if scale_above not in (None, pool_scale):
            table.add_section()
        scale_above = pool_scale
        table.add_row(f"{pool_scale:g}", variant, *(cell(group) for cell in _COLUMNS.values()))
    return table


def _mean(key: str, digits: int, factor: float = 1.0) -> Callable[[Rows], str]:
    return lambda group: f"{factor * statistics.mean(row[key] for row in group):.{digits}f}"


def _spread(group: Rows) -> str:
    hits = [100 * row["hit_rate"] for row in group]
    return f"{statistics.stdev(hits):.1f}" if len(hits) > 1 else ""


def _longest_wait(group: Rows) -> str:
    return f"{max(row['first_wait_max_s'] for row in group):.1f}"


def _evictions(group: Rows) -> str:
    reasons = {
        reason: statistics.mean(row["evicted_tokens"].get(reason, 0) for row in group)
        for reason in group[0]["evicted_tokens"]
    }
    return ", ".join(f"{reason} {mean:,.0f}" for reason, mean in reasons.items() if mean)


def _prefetches(group: Rows) -> str:
    loaded = statistics.mean(row["prefetched_tokens"] for row in group)
    used = statistics.mean(row["prefetch_used_tokens"] for row in group)
    return f"{loaded:,.0f} / {used:,.0f}" if loaded else ""


_COLUMNS: dict[str, Callable[[Rows], str]] = {
    "hit %": _mean("hit_rate", 1, 100),
    "+-": _spread,
    "host %": _mean("host_hit_rate", 1, 100),
    "latency s": _mean("latency_mean_s", 2),
    "p95 s": _mean("latency_p95_s", 2),
    "first call p95 s": _mean("ttft_first_p95_s", 2),
    "p99 s": _mean("ttft_first_p99_s", 2),
    "longest s": _longest_wait,
    "evicted tokens": _evictions,
    "prefetched / used": _prefetches,
}
