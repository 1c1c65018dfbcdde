"""Tables 1 and 2: the policies on three workloads and two models."""

from __future__ import annotations

from itertools import pairwise

from pbkv.report import Block, Section, Table, Text
from services.experiments.claim import Claim, verdict
from services.experiments.measured import Measured, Sample
from services.experiments.paper import METRICS, PaperValue, table2
from services.experiments.scope import TITLES, Scope
from services.sim.grid import GridCell

_DIGITS = {"latency_mean_s": 1, "ttft_mean_s": 2, "hit_rate": 1}
_HEADERS = {"latency_mean_s": "latency s", "ttft_mean_s": "TTFT s", "hit_rate": "hit %"}
RATIO_WITHIN = 0.10
"""A ratio of latencies agrees if it is within this share of the paper's."""
TIE_POINTS = 0.05
"""Hit rates that differ by less are no order."""
HIT_WITHIN = 5.0
"""LRU's hit rate agrees within so many points."""


def cells(scope: Scope) -> list[GridCell]:
    return [
        scope.cell(workload, policy, model)
        for (model, workload), policies in table2().items()
        for policy in policies
    ]


def section(scope: Scope, measured: Measured) -> Section:
    blocks: list[Block] = [
        Text(
            f"Mean and standard deviation over {scope.seeds} seeds beside the paper's. Pool, "
            "running requests and scale of prompts are fitted to the paper's LRU row of each "
            "block, so that row agrees by construction as far as it can; everything else follows "
            "from it. Hit rate: prompt tokens found on the device."
        )
    ]
    claims: list[Claim] = []
    for (model, workload), policies in table2().items():
        ours = {
            policy: {
                metric: measured.of(scope.cell(workload, policy, model), metric, scope.seeds)
                for metric in METRICS
            }
            for policy in policies
        }
        title = f"{TITLES[workload]}, {model}"
        blocks.append(_table(title, ours, policies))
        claims += _claims(title, ours, policies)
    return Section("Tables 1 and 2: policies", (*blocks, *verdict(claims)))


def _table(
    title: str, ours: dict[str, dict[str, Sample]], paper: dict[str, dict[str, PaperValue]]
) -> Table:
    columns = ["policy"]
    for metric in METRICS:
        columns += [_HEADERS[metric], "paper"]
    rows = []
    for policy, samples in ours.items():
        row = [policy]
        for metric in METRICS:
            digits, value = _DIGITS[metric], paper[policy][metric]
            row.append(samples[metric].text(digits))
            row.append(f"{value.mean:.{digits}f} ± {value.std:.{digits}f}")
        rows.append(row)
    return Table.of(columns, rows, caption=title)


def _claims(
    title: str, ours: dict[str, dict[str, Sample]], paper: dict[str, dict[str, PaperValue]]
) -> list[Claim]:
    hits = {policy: samples["hit_rate"].mean for policy, samples in ours.items()}
    paper_order = sorted(paper, key=lambda policy: paper[policy]["hit_rate"].mean)
    lru = ours["lru"]["hit_rate"].mean
    claims = [
        Claim(
            f"{title}, {paper['lru']['hit_rate'].mean:.1f} % of LRU's prompt tokens hit",
            abs(lru - paper["lru"]["hit_rate"].mean) <= HIT_WITHIN,
            f"{lru:.1f} %",
        ),
        Claim(
            f"{title}, hit rates rise in the order {', '.join(paper_order)}",
            all(hits[after] - hits[before] > TIE_POINTS for before, after in pairwise(paper_order)),
            ", ".join(f"{policy} {hits[policy]:.1f}" for policy in paper_order),
        ),
    ]
    rivals = [rival for rival in ("lru", "kvflow") if rival in paper]
    for rival in rivals:
        ratio, their_ratio = (
            table[rival]["latency_mean_s"].mean / table["pbkv"]["latency_mean_s"].mean
            for table in (ours, paper)
        )
        claims.append(
            Claim(
                f"{title}, pbkv is {their_ratio:.2f}x faster than {rival} in workflow latency",
                ratio >= their_ratio * (1.0 - RATIO_WITHIN),
                f"{ratio:.2f}x",
            )
        )
    return claims
