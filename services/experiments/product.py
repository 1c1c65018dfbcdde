"""Beyond the paper: the product with its own queue order against the best stock configuration."""

from __future__ import annotations

from dataclasses import replace

from pbkv.report import Section, Table, Text
from services.experiments.measured import Measured
from services.experiments.scope import TITLES, WORKLOADS, Scope, at_concurrency
from services.sim.grid import GridCell

PRODUCT = "pbkv+page/pbkv"
STOCK = (
    "lru/lpm",
    "session/fcfs",
    "session/lpm",
    "session/hrrn",
    "session/shortest-prefill-first",
)
POOL_SCALES = (0.6, 0.8, 1.2)
_METRICS = {
    "latency_mean_s": "mean s",
    "latency_p95_s": "p95 s",
    "latency_p99_s": "p99 s",
    "ttft_first_p95_s": "first call p95 s",
}


def _places(scope: Scope, workload: str, variant: str) -> dict[str, GridCell]:
    """Memory pressure and concurrency, by what they are called."""
    cell = scope.cell(workload, variant)
    fewer = 2 * cell.point.concurrency // 3
    return {
        "the paper's": cell,
        **{f"pool x {scale}": replace(cell, kv_scale=scale) for scale in POOL_SCALES},
        f"{fewer} at a time": at_concurrency(cell, fewer),
    }


def cells(scope: Scope) -> list[GridCell]:
    return [
        cell
        for workload in WORKLOADS
        for variant in (PRODUCT, *STOCK)
        for cell in _places(scope, workload, variant).values()
    ]


def section(scope: Scope, measured: Measured) -> Section:
    rows, sentences = [], []
    for workload in WORKLOADS:
        table = {
            variant: {
                place: {
                    metric: measured.of(cell, metric, scope.sweep_seeds).mean for metric in _METRICS
                }
                for place, cell in _places(scope, workload, variant).items()
            }
            for variant in (PRODUCT, *STOCK)
        }
        for place in table[PRODUCT]:
            for variant, places in table.items():
                cells_ = [f"{places[place][metric]:.1f}" for metric in _METRICS]
                rows.append([TITLES[workload], place, variant, *cells_])
            parts = []
            for metric in ("latency_mean_s", "latency_p95_s", "latency_p99_s"):
                best = min(STOCK, key=lambda stock: table[stock][place][metric])
                ratio = table[best][place][metric] / table[PRODUCT][place][metric]
                parts.append(f"{ratio:.2f}x in the {_METRICS[metric]} of {best}")
            sentences.append(
                Text(
                    f"{TITLES[workload]}, {place}: best stock over {PRODUCT} is {', '.join(parts)}."
                )
            )
    caption = (
        f"qwen3-32b, {scope.sweep_seeds} seeds; workflow latency, and the time to the first token "
        "of newcomers; session is stock's session-aware cache"
    )
    return Section(
        "Beyond the paper: the product against stock",
        (
            Table.of(
                ("workload", "point", "variant", *_METRICS.values()),
                rows,
                caption=caption,
                row_headers=3,
            ),
            *sentences,
        ),
    )
