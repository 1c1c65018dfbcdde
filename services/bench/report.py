"""The results file that other tools read, and the table on the screen."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

SCHEMA = 1
_WIDTH = 150
_CAPTION = (
    "hit: prompt tokens found on the device; latency: whole workflows; first TTFT: of the first "
    "call of each workflow"
)


def environment(**extra: Any) -> dict[str, Any]:
    """Where and with what a benchmark ran."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("pbkv", "sglang", "torch", "ray")},
        **extra,
    }


def write_json(
    path: Path, command: Sequence[str], env: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    """Write ``{"schema", "command", "environment", "rows"}``."""
    content = {"schema": SCHEMA, "command": list(command), "environment": env, "rows": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))


def engine_table(rows: list[dict[str, Any]]) -> Table:
    """Mean over repeats per variant, with the spread of the hit rate."""
    table = Table(title="mean over repeats", caption=_CAPTION)
    for column in (
        "policy",
        "queue",
        "hit %",
        "+- ",
        "host %",
        "latency s",
        "p95 s",
        "TTFT s",
        "first TTFT p95 s",
        "evicted tokens",
    ):
        table.add_column(column, justify="left" if column in ("policy", "queue") else "right")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["policy"], row["queue"]), []).append(row)
    for (policy, queue), group in groups.items():
        hits = [100 * row["hit_rate"] for row in group]
        table.add_row(
            policy,
            queue,
            f"{statistics.mean(hits):.1f}",
            f"{statistics.stdev(hits):.1f}" if len(hits) > 1 else "",
            f"{100 * _mean(group, 'host_hit_rate'):.1f}",
            f"{_mean(group, 'latency_mean_s'):.2f}",
            f"{_mean(group, 'latency_p95_s'):.2f}",
            f"{_mean(group, 'ttft_mean_s'):.3f}",
            f"{_mean(group, 'ttft_first_p95_s'):.3f}",
            _evictions(group),
        )
    return table


def show(renderable: Any, console: Console | None = None) -> None:
    """Print for people; into a file or pipe with room for every column."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(renderable)


def _evictions(group: list[dict[str, Any]]) -> str:
    reasons = {
        reason: statistics.mean(row["evicted_tokens"].get(reason, 0) for row in group)
        for reason in group[0]["evicted_tokens"]
    }
    return ", ".join(f"{reason} {mean:,.0f}" for reason, mean in reasons.items() if mean)


def _mean(group: list[dict[str, Any]], key: str) -> float:
    return float(statistics.mean(row[key] for row in group))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
