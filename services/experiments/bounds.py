"""How far the policies are from what could be had: clairvoyance, and a cache without limit."""

from __future__ import annotations

from pbkv.report import Section, Table, Text
from services.experiments.measured import Measured
from services.experiments.scope import TITLES, WORKLOADS, Scope
from services.sim.grid import GridCell

_MEANING = {
    "pbkv": "the paper's policy, forecasts learned as it serves",
    "oracle-predictor": "pbkv with perfect forecasts",
    "oracle": "knows every call to come",
    "unlimited": "a cache that never fills",
}


def cells(scope: Scope) -> list[GridCell]:
    return [scope.cell(workload, policy) for workload in WORKLOADS for policy in _MEANING]


def section(scope: Scope, measured: Measured) -> Section:
    seeds = scope.sweep_seeds
    rows, sentences = [], []
    for workload in WORKLOADS:
        hits = {
            policy: measured.of(scope.cell(workload, policy), "hit_rate", seeds)
            for policy in _MEANING
        }
        for policy, hit in hits.items():
            latency = measured.of(scope.cell(workload, policy), "latency_mean_s", seeds)
            rows.append([TITLES[workload], policy, _MEANING[policy], hit.text(), latency.text()])
        gap = hits["oracle"].minus(hits["pbkv"])
        bound = "" if gap.mean >= 0 else " The oracle is below pbkv there, so it is no bound."
        sentences.append(
            Text(
                f"{TITLES[workload]}: pbkv is {gap.mean:.1f} ± {gap.error:.1f} points of hit rate "
                f"below the oracle and {hits['unlimited'].minus(hits['pbkv']).mean:.1f} below a "
                f"cache without limit.{bound}"
            )
        )
    table = Table.of(
        ("workload", "policy", "what it is", "hit %", "latency s"),
        rows,
        caption=f"qwen3-32b, {seeds} seeds, mean ± standard deviation",
        row_headers=3,
    )
    return Section("Upper bounds", (table, *sentences))
