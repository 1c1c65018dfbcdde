"""How far LRU's row decides the rest: other regimes that fit it as well.

Pool, running requests and scale of prompts are fitted to three numbers of LRU, which leaves room.
What a policy gains in every regime that fits does not hang on the one that was chosen.
"""

from __future__ import annotations

from dataclasses import replace

from pbkv.report import Section, Table
from pbkv.sim import gpu_costs
from pbkv.sim.points import other_fits
from services.experiments.claim import Claim, verdict
from services.experiments.measured import Measured
from services.experiments.paper import table2
from services.experiments.scope import MODELS, PAPER_GPU, TITLES, WORKLOADS, Scope
from services.sim.grid import GridCell

_RIVAL = {"hover": "lru", "swebench": "lru", "financebench": "kvflow"}
"""Over whom the paper names a gain in latency."""


def _regimes(scope: Scope, workload: str, policy: str) -> list[GridCell]:
    """The operating point of the tables first."""
    cell = scope.cell(workload, policy)
    others = other_fits(workload, gpu_costs(cell.model, cell.gpu))
    kept = [replace(point, workflows=cell.point.workflows) for point in others]
    return [cell, *(replace(cell, point=point) for point in kept)]


def _policies(workload: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("lru", _RIVAL[workload], "pbkv")))


def cells(scope: Scope) -> list[GridCell]:
    return [
        cell
        for workload in WORKLOADS
        for policy in _policies(workload)
        for cell in _regimes(scope, workload, policy)
    ]


def section(scope: Scope, measured: Measured) -> Section:
    rows, claims = [], []
    for workload in WORKLOADS:
        regimes = list(
            zip(*(_regimes(scope, workload, p) for p in _policies(workload)), strict=True)
        )
        ratios = [_gain(regime, scope, measured) for regime in regimes]
        rival = _RIVAL[workload]
        for regime, ratio in zip(regimes, ratios, strict=True):
            numbers = _numbers(regime, scope, measured)
            rows.append([TITLES[workload], *numbers, f"{ratio:.2f}x over {rival}"])
        paper = table2()[MODELS[0], workload]
        theirs = paper[rival]["latency_mean_s"].mean / paper["pbkv"]["latency_mean_s"].mean
        claims.append(
            Claim(
                f"{TITLES[workload]}, pbkv is {theirs:.2f}x faster than {rival} in at least one "
                f"of {len(ratios)} regimes that fit LRU's row",
                max(ratios) >= theirs,
                f"{min(ratios):.2f}x to {max(ratios):.2f}x",
            )
        )
    table = Table.of(
        (
            "workload",
            "scale",
            "KV tokens",
            "running",
            "lru hit %",
            "lru latency s",
            "lru TTFT s",
            "pbkv hit %",
            "pbkv latency s",
            "gain",
        ),
        rows,
        caption=f"{MODELS[0]} on {PAPER_GPU}, {scope.sweep_seeds} seeds, mean ± standard "
        "deviation; the first row of a workload is the point of the tables",
        row_headers=4,
    )
    return Section("Other regimes that fit LRU's row", (table, *verdict(claims)))


def _gain(regime: tuple[GridCell, ...], scope: Scope, measured: Measured) -> float:
    """Mean workflow latency of the rival over that of pbkv."""
    *_, rival, pbkv = (measured.of(cell, "latency_mean_s", scope.sweep_seeds) for cell in regime)
    return rival.mean / pbkv.mean


def _numbers(regime: tuple[GridCell, ...], scope: Scope, measured: Measured) -> list[str]:
    lru, pbkv, point = regime[0], regime[-1], regime[0].point

    def text(cell: GridCell, metric: str, digits: int = 1) -> str:
        return measured.of(cell, metric, scope.sweep_seeds).text(digits)

    return [
        f"{point.scale:g}",
        f"{point.kv_tokens:,}",
        str(point.max_running_requests),
        text(lru, "hit_rate"),
        text(lru, "latency_mean_s"),
        text(lru, "ttft_mean_s", 2),
        text(pbkv, "hit_rate"),
        text(pbkv, "latency_mean_s"),
    ]
