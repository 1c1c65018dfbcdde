"""Table 4: what a decision costs, from ``pbkv bench policy``."""

from __future__ import annotations

from typing import Any

from pbkv.report import Section, Table, Text
from services.experiments.claim import Claim, verdict
from services.experiments.paper import table4_us

_OPS = {
    "EvictDecision": "evict",
    "PredictInfer": "predict",
    "ScoreUpdate": "score",
    "PrefetchDecision": "prefetch",
}
_NOTE = (
    "CPU time of the scheduler's thread on this machine, by pbkv bench policy. The paper's "
    "PredictInfer is GraphSAGE on a GPU; here it is one batch of 1,024 workflows through the "
    "engine's default predictor on a CPU, so the two are not compared."
)


def section(rows: list[dict[str, Any]], problem: str = "") -> Section:
    """``problem`` says why there are no rows."""
    title = "Table 4: decisions"
    ours = {name: _largest(rows, op) for name, op in _OPS.items()}
    if not any(ours.values()):
        return Section(title, (Text(f"Not measured: {problem or 'no rows of pbkv bench policy'}"),))
    table_rows, claims = [], []
    for name, (paper_mean, paper_p99) in table4_us().items():
        row = ours[name]
        if row is None:
            continue
        nodes = f"{row['nodes']:,}" if row["nodes"] else ""
        measured = f"{row['mean_us']:,.2f} / {row['p99_us']:,.2f}"
        table_rows.append([name, nodes, measured, f"{paper_mean:,.2f} / {paper_p99:,.2f}"])
        if name != "PredictInfer":
            claims.append(
                Claim(
                    f"{name} takes {paper_mean:,.2f} us in the mean",
                    row["mean_us"] <= paper_mean,
                    f"{row['mean_us']:,.2f} us with {row['nodes']:,} nodes",
                )
            )
    table = Table.of(
        ("component", "nodes", "mean / p99, us", "paper"),
        table_rows,
        caption="score: per node of the refreshed workflow",
    )
    return Section(title, (Text(_NOTE), table, *verdict(claims)))


def _largest(rows: list[dict[str, Any]], op: str) -> dict[str, Any] | None:
    """The row of an operation at the largest tree measured."""
    ours = [row for row in rows if row["op"] == op and row["implementation"] == "pbkv"]
    return max(ours, key=lambda row: row["nodes"], default=None)
