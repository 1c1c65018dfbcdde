"""Two runs compared, on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from loadgen.compare import Comparison, Estimate
from loadgen.results import Results
from loadgen.summary import rows

_HEADLINE = ("hit rate", "workflow latency, mean", "TTFT, mean")
_CAPTION = (
    "in brackets: 95 % intervals by bootstrap; p95: 95 % are below; TTFT: time to the first token"
)


def comparison_table(first: Results, second: Results, found: Sequence[Comparison]) -> Table:
    """One line per measure."""
    table = Table(title=first.workload, caption=_CAPTION)
    table.add_column("measure")
    for name in (first.name, second.name, "change"):
        table.add_column(name, justify="right")
    table.add_column("")
    for line in found:
        table.add_row(*cells(line))
    return table


def headline(first: Results, second: Results, found: Sequence[Comparison]) -> str:
    """The result in one sentence: the three measures of Table 1, and whatever became worse."""
    parts = [
        f"{line.measure} {line.first.value:.3g} to {line.second.value:.3g} {line.unit} "
        f"({_relative(line)}{line.verdict})"
        for line in found
        if line.measure in _HEADLINE or line.verdict == "worse"
    ]
    return f"From {first.name} to {second.name}: {'; '.join(parts)}."


def caveats(*runs: Results) -> list[str]:
    """One line for each run that is not whole: what its numbers leave out, and why."""
    lines = []
    for run in runs:
        total = rows(run.records)[0]
        unfinished = total["workflows"] - total["workflows_finished"]
        if unfinished:
            kinds = ", ".join(f"{n} {kind}" for kind, n in total["errors_by_kind"].items())
            lines.append(
                f"Beware: {unfinished} of {total['workflows']} workflows of {run.name} did not "
                f"finish (failed calls: {kinds or 'none'}). They are missing in its numbers, which "
                "may look better for it."
            )
    return lines


def cells(line: Comparison) -> tuple[str, str, str, str, str]:
    """Measure, both values, their change and the verdict, as they are shown."""
    return (
        f"{line.measure}, {line.unit}",
        _estimate(line.first),
        _estimate(line.second),
        _estimate(line.change, "+"),
        line.verdict,
    )


def _relative(line: Comparison) -> str:
    """How large a clear change of a time is, for the reader's head: "39 % less, "."""
    if not line.sure or line.unit != "s" or line.first.value <= 0:
        return ""
    change = line.change.value / line.first.value
    return f"{abs(change):.0%} {'less' if change < 0 else 'more'}, ".replace("%", " %")


def _estimate(estimate: Estimate, sign: str = "") -> str:
    return f"{estimate.value:{sign}.3g} [{estimate.low:{sign}.3g}, {estimate.high:{sign}.3g}]"
