"""Two runs compared, on the screen and as a page. The page brings matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table as ScreenTable

from loadgen.compare import Comparison, Estimate
from loadgen.results import Results

_HEADLINE = ("hit rate", "workflow latency, mean", "TTFT, mean")
_CAPTION = "in brackets: 95 % intervals by bootstrap"


def comparison_table(first: Results, second: Results, found: Sequence[Comparison]) -> ScreenTable:
    """One line per measure."""
    table = ScreenTable(title=first.workload, caption=_CAPTION)
    table.add_column("measure")
    for name in (first.name, second.name, "change"):
        table.add_column(name, justify="right")
    table.add_column("")
    for line in found:
        table.add_row(*_cells(line))
    return table


def write_comparison(
    path: Path, first: Results, second: Results, found: Sequence[Comparison]
) -> None:
    """A page with the table and the two distributions. Raises OSError."""
    import numpy as np

    from pbkv.report import Report, Section, Series, Table, Text, line_chart, write_html

    shares = np.linspace(0.0, 1.0, 100)

    def curve(run: Results, values: Sequence[float]) -> Series:
        return Series(run.name, tuple(np.quantile(values, shares)), tuple(100 * shares))

    runs = (first, second)
    panels = [
        (title, [curve(run, values) for run, values in zip(runs, both, strict=True)])
        for title, both in (
            ("workflow latency", [run.workflow_latencies_s for run in runs]),
            ("TTFT", [run.ttfts_s for run in runs]),
        )
        if all(both)
    ]
    table = Table.of(
        ("measure", first.name, second.name, "change", "verdict"),
        [_cells(line) for line in found],
        caption=_CAPTION,
    )
    sections = [Section("Side by side", (Text(headline(first, second, found)), table))]
    if panels:
        figure = line_chart(
            panels,
            x_label="seconds",
            y_label="share of all, %",
            alt="share of workflow latencies and of times to the first token below each time",
            caption="A line further to the left is faster.",
        )
        sections.append(Section("How the times are spread", (figure,)))
    lead = (
        f"The same workflows ({first.workload}) ran twice, as {first.name} and as {second.name}. "
        "The hit rate is the share of the prompts that the server found in its KV cache and did "
        "not compute again; latency is the time of a whole workflow of several agents, TTFT the "
        "wait of one call for its first token."
    )
    write_html(path, Report(f"{first.name} against {second.name}", lead, tuple(sections)))


def headline(first: Results, second: Results, found: Sequence[Comparison]) -> str:
    """The result in one sentence: the three measures of Table 1, and whatever became worse."""
    parts = [
        f"{line.measure} {line.first.value:.3g} to {line.second.value:.3g} {line.unit} "
        f"({line.verdict})"
        for line in found
        if line.measure in _HEADLINE or line.verdict == "worse"
    ]
    return f"From {first.name} to {second.name}: {'; '.join(parts)}."


def _cells(line: Comparison) -> tuple[str, str, str, str, str]:
    return (
        f"{line.measure}, {line.unit}",
        _estimate(line.first),
        _estimate(line.second),
        _estimate(line.change, "+"),
        line.verdict,
    )


def _estimate(estimate: Estimate, sign: str = "") -> str:
    return f"{estimate.value:{sign}.3g} [{estimate.low:{sign}.3g}, {estimate.high:{sign}.3g}]"
