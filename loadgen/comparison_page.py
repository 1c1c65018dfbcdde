"""Two runs compared, as a page. Brings matplotlib: import it late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loadgen.compare import Comparison
from loadgen.comparison_table import caveats, cells, headline
from loadgen.curves import HOW_TO_READ_SHARES, SHARE_LABEL, hit_rates, shares
from loadgen.results import Results
from loadgen.summary import rows
from pbkv.report import Block, Report, Section, Table, Text, line_chart, write_html

_HOW_TO_READ = (
    "Hit rate: the higher, the better; all times: the lower, the better. p95 is the time that 95 % "
    "of the workflows or calls stayed below, so it tells of the slowest. In brackets stands the "
    "95 % interval: how far a value may be off by the chance of which workflows ran, found by "
    "drawing them anew 2,000 times; it is wide where few ran. The verdict is better or worse where "
    "the whole interval of the change lies on one side of 0, else there is no clear difference."
)
_WIDE_INCHES = 6.8


def write_comparison(
    path: Path, first: Results, second: Results, found: Sequence[Comparison]
) -> None:
    """A page with the table, the hit rates over time and the distributions. Raises OSError."""
    runs = (first, second)
    table = Table.of(
        ("measure", first.name, second.name, "change", "verdict"),
        [cells(line) for line in found],
        caption=f"{second.name} is judged against {first.name}.",
    )
    result: tuple[Block, ...] = (
        Text(headline(first, second, found)),
        *(Text(line) for line in caveats(*runs)),
        table,
        Text(_HOW_TO_READ),
    )
    described = _descriptions(runs)
    sections = [Section("What is compared", tuple(described))] if described else []
    sections.append(Section("The result", result))
    sections += [
        Section(title, (block,))
        for title, block in (
            ("Hit rate over time", _over_time(runs)),
            ("How the times are spread", _distributions(runs)),
        )
        if block is not None
    ]
    sections.append(Section("How it was made", (_runs_table(runs),)))
    lead = (
        f"{_same_or_not(first, second)}, once on {first.name} and once on {second.name}"
        f"{_same_pace(first, second)}. A "
        "workflow is one task that several agents solve in turn, each by calls to a language "
        "model; each call sends a prompt that repeats much of what was sent before. What the "
        "server still holds of it in its KV cache need not be computed again: that share of the "
        "prompts is the hit rate. TTFT is how long one call waits for the first token of its "
        "answer, workflow latency how long a whole workflow takes."
    )
    write_html(path, Report(f"{first.name} against {second.name}", lead, tuple(sections)))


def _same_or_not(first: Results, second: Results) -> str:
    """What ran: only workflows that are known to be equal are called so."""
    made = [
        (run.environment.get("seed"), run.environment.get("scale"), len(run.records.workflows))
        for run in (first, second)
    ]
    if made[0] == made[1]:
        return f"The same workflows ({first.workload}) ran twice"
    return f"Workflows of {first.workload}, not the same ones, ran twice"


def _same_pace(first: Results, second: Results) -> str:
    pace, other = (run.environment.get("pace") for run in (first, second))
    return f", {pace}" if pace and pace == other else ""


def _over_time(runs: Sequence[Results]) -> Block | None:
    lines = [hit_rates(run.name, run.records) for run in runs]
    known = [line for line in lines if line is not None]
    if len(known) < len(lines):
        return None
    return line_chart(
        [("hit rate of the calls answered at that time", known)],
        x_label="seconds since the start of the run",
        y_label="hit rate, %",
        y_range=(0, 100),
        panel_inches=_WIDE_INCHES,
        alt=f"hit rate over time of {runs[0].name} and {runs[1].name}",
        caption="Higher is better. The line that ends first is of the run that was done first. "
        "First calls find little in an empty cache; at the end few workflows share it.",
    )


def _distributions(runs: Sequence[Results]) -> Block | None:
    panels = [
        (title, [shares(run.name, values) for run, values in zip(runs, both, strict=True)])
        for title, both in (
            ("workflow latency", [run.workflow_latencies_s for run in runs]),
            ("TTFT of a call", [run.ttfts_s for run in runs]),
        )
        if all(both)
    ]
    if not panels:
        return None
    return line_chart(
        panels,
        x_label="seconds",
        y_label=SHARE_LABEL,
        alt="share of workflow latencies and of times to the first token below each time",
        caption=f"{HOW_TO_READ_SHARES}The line further to the left is the faster run.",
    )


def _descriptions(runs: Sequence[Results]) -> list[Block]:
    told = [(run.name, run.environment.get("description")) for run in runs]
    return [Text(f"{name}: {description}.") for name, description in told if description]


def _runs_table(runs: Sequence[Results]) -> Table:
    totals = [rows(run.records)[0] for run in runs]
    lines = [
        (
            "workflows finished",
            *(f"{total['workflows_finished']} of {total['workflows']}" for total in totals),
        ),
        ("calls", *(total["calls"] for total in totals)),
        ("calls that failed", *(total["errors"] for total in totals)),
        ("length of the run, s", *(f"{total['duration_s']:.0f}" for total in totals)),
        *(
            (label, *(str(run.environment.get(name, "")) for run in runs))
            for label, name in (
                ("model", "model"),
                ("date", "date"),
                ("machine of the load generator", "cpu"),
            )
        ),
    ]
    return Table.of(("", *(run.name for run in runs)), lines)
