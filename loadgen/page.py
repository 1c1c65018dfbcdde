"""The page of one run, for someone who was not there. Brings matplotlib: import it late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.records import MEANINGS, ErrorKind, RunRecords, WorkflowState
from loadgen.summary import rows, transitions, ttfts
from loadgen.table import number
from loadgen.timeline import hit_rate_over_time, phases_of
from pbkv.report import Block, Figure, Report, Section, Series, Table, Text, line_chart, write_html

_POINTS = 100


def write_page(
    path: Path,
    records: RunRecords,
    *,
    workload: str,
    model: str,
    url: str,
    command: Sequence[str],
    notes: Sequence[str] = (),
) -> None:
    """Write a self-contained HTML page. Raises OSError."""
    total, *agents = rows(records)
    lead = (
        f"{total['workflows']} workflows of {workload} ran against {model} at {url}. A workflow is "
        "one task that several agents solve in turn; each of its calls sends a prompt that repeats "
        "much of what was sent before. What the server still holds of it in its KV cache need not "
        "be computed again: that share of the prompt is the hit rate, and the higher it is, the "
        "sooner the first token comes (TTFT) and the workflow ends (latency)."
    )
    sections = [
        Section("In short", (_whole(total), *(Text(f"Note: {note}.") for note in notes))),
        Section("How the times are spread", tuple(_distributions(records))),
        Section("Hit rate over time", tuple(_over_time(records))),
        Section("Agents", (_agent_table(agents),)),
        Section("From one agent to the next", (_transition_table(transitions(records)),)),
        Section("Errors", (_errors(total),)),
        Section("How it was made", (Text(f"pbkv {' '.join(command)}"),)),
    ]
    write_html(path, Report(f"Load on {model}: {workload}", lead, tuple(sections)))


def _whole(total: dict[str, Any]) -> Table:
    return Table.of(
        ("measure", "value"),
        (
            ("workflows finished", f"{total['workflows_finished']} of {total['workflows']}"),
            ("calls", total["calls"]),
            ("calls that failed", total["errors"]),
            ("workflow latency, mean s", number(total["latency_mean_s"])),
            ("workflow latency, p95 s", number(total["latency_p95_s"])),
            ("TTFT per call, mean s", number(total["ttft_mean_s"], 3)),
            ("TTFT per call, p95 s", number(total["ttft_p95_s"], 3)),
            ("hit rate, %", number(total["hit_rate"], 1, 100)),
            ("calls a second", number(total["calls_per_s"], 1)),
            ("lateness of the load generator, p99 ms", number(total["lag_p99_s"], 1, 1000)),
        ),
    )


def _distributions(records: RunRecords) -> list[Block]:
    measured = records.measured()
    latencies = [w.latency_s for w in measured.workflows if w.state is WorkflowState.FINISHED]
    charts = [
        _cumulative("workflow latency", latencies, "seconds"),
        _cumulative("TTFT", ttfts(measured.calls), "seconds"),
    ]
    return [chart for chart in charts if chart is not None] or [Text("Nothing was answered.")]


def _cumulative(name: str, values: Sequence[float], unit: str) -> Figure | None:
    if not values:
        return None
    shares = np.linspace(0.0, 1.0, _POINTS)
    line = Series(name, tuple(np.quantile(values, shares)), tuple(100 * shares), dashed=False)
    return line_chart(
        [(name, [line])],
        x_label=unit,
        y_label="share of all, %",
        alt=f"share of {name} values below each time; median {np.median(values):.3g} {unit}",
        caption=f"{name}: half of all were below {np.median(values):.3g} {unit}",
    )


def _over_time(records: RunRecords) -> list[Block]:
    times_s, rates = hit_rate_over_time(records)
    if not times_s:
        return [Text("The answers told no cached tokens, so there is no hit rate.")]
    phases = phases_of(records)
    lines = [Series("hit rate", times_s, tuple(100 * rate for rate in rates))]
    marks = (
        ("warm-up over", phases.warm_until_s),
        ("full", phases.full_s),
        ("running empty", phases.draining_s),
    )
    lines += [
        Series(f"{name} ({at_s:.0f} s)", (at_s, at_s), (0.0, 100.0), dashed=True)
        for name, at_s in marks
        if at_s > 0
    ]
    chart = line_chart(
        [("hit rate of the calls answered in each slice of time", lines)],
        x_label="seconds since the start",
        y_label="hit rate, %",
        y_range=(0, 100),
        alt="hit rate over time, with the ends of the warm-up, the filling and the steady phase",
        caption="Hit rates are high while the run fills up and while it runs empty; what counts "
        "is the steady part between.",
    )
    return [chart]


def _agent_table(agents: Sequence[dict[str, Any]]) -> Table:
    return Table.of(
        ("agent", "calls", "errors", "call latency s", "TTFT s", "TTFT p95 s", "hit rate %"),
        [
            (
                row["agent"],
                row["calls"],
                row["errors"],
                number(row["latency_mean_s"]),
                number(row["ttft_mean_s"], 3),
                number(row["ttft_p95_s"], 3),
                number(row["hit_rate"], 1, 100),
            )
            for row in agents
        ],
    )


def _transition_table(pairs: Sequence[dict[str, Any]]) -> Table:
    return Table.of(
        ("from", "to", "calls", "TTFT s", "hit rate %"),
        [
            (
                pair["from"],
                pair["to"],
                pair["calls"],
                number(pair["ttft_mean_s"], 3),
                number(pair["hit_rate"], 1, 100),
            )
            for pair in pairs
        ],
        caption="TTFT and hit rate are those of the second agent's calls.",
        row_headers=2,
    )


def _errors(total: dict[str, Any]) -> Block:
    if not total["errors_by_kind"]:
        return Text("No call failed.")
    return Table.of(
        ("kind", "calls", "what it means"),
        [(kind, n, MEANINGS[ErrorKind(kind)]) for kind, n in total["errors_by_kind"].items()],
        caption="A workflow ends with its first failed call.",
    )
