"""The page of one run, for someone who was not there. Brings matplotlib: import it late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.curves import HOW_TO_READ_SHARES, SHARE_LABEL, hit_rates, shares
from loadgen.records import MEANINGS, ErrorKind, RunRecords, WorkflowState
from loadgen.summary import hit_rate, rows, transitions, ttfts
from loadgen.table import number
from loadgen.timeline import Phases, phases_of
from pbkv.report import Block, Report, Section, Series, Table, Text, line_chart, write_html

_WIDE_INCHES = 6.8


def write_page(
    path: Path,
    records: RunRecords,
    *,
    workload: str,
    model: str,
    url: str,
    command: Sequence[str],
    notes: Sequence[str] = (),
    pace: str = "",
) -> None:
    """Write a self-contained HTML page; ``pace`` says how the load was put on. Raises OSError."""
    total, *agents = rows(records)
    how = f", {pace}" if pace else ""
    lead = (
        f"{total['workflows']} workflows of {workload} ran against {model} at {url}{how}. The "
        f"run took {total['duration_s']:.0f} seconds. A workflow is "
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
        Section("Errors", tuple(_errors(total))),
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
        caption="p95: 95 % of the workflows or calls stayed below it, p99: 99 %. Latency: of whole "
        "workflows that finished, from when they were due, pauses of tools included. TTFT: the "
        "time from sending a call to the first token of its answer.",
    )


def _distributions(records: RunRecords) -> list[Block]:
    measured = records.measured()
    latencies = [w.latency_s for w in measured.workflows if w.state is WorkflowState.FINISHED]
    both = (("workflow latency", latencies), ("TTFT of a call", ttfts(measured.calls)))
    known = [(name, values) for name, values in both if values]
    if not known:
        return [Text("Nothing was answered.")]
    medians = "; ".join(f"{name}: {np.median(values):.3g} s" for name, values in known)
    chart = line_chart(
        [(name, [shares(name, values)]) for name, values in known],
        x_label="seconds",
        y_label=SHARE_LABEL,
        alt=f"shares of workflows and calls below each time; medians: {medians}",
        caption=f"{HOW_TO_READ_SHARES}Medians: {medians}.",
    )
    return [chart]


def _over_time(records: RunRecords) -> list[Block]:
    line = hit_rates("hit rate", records)
    if line is None:
        return [Text("The answers told no cached tokens, so there is no hit rate.")]
    phases = phases_of(records)
    lines = [line]
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
        [("hit rate of the calls answered at that time", lines)],
        x_label="seconds since the start of the run",
        y_label="hit rate, %",
        y_range=(0, 100),
        panel_inches=_WIDE_INCHES,
        alt="hit rate over time, with the ends of the warm-up, the filling and the steady phase",
        caption="Higher is better. First calls find little in an empty cache; while the run fills "
        "up and while it runs empty few workflows share the cache. What counts is the steady part "
        f"between full and running empty: {_between(phases, records)}.",
    )
    return [chart]


def _between(phases: Phases, records: RunRecords) -> str:
    """The hit rate of the steady part."""
    begin_s = max(phases.warm_until_s, phases.full_s)
    steady = [c for c in records.calls if begin_s <= c.finished_s <= phases.draining_s]
    rate = hit_rate(steady)
    return "no call ended in it" if rate is None else f"{100 * rate:.1f} % of {len(steady)} calls"


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
        caption="Of single calls: latency is the time to the end of an answer. Mean values, where "
        "no other is named.",
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


def _errors(total: dict[str, Any]) -> list[Block]:
    if not total["errors_by_kind"]:
        return [Text("No call failed.")]
    table = Table.of(
        ("kind", "calls", "what it means"),
        [(kind, n, MEANINGS[ErrorKind(kind)]) for kind, n in total["errors_by_kind"].items()],
        caption="A workflow ends with its first failed call.",
    )
    said = total["error_examples"].items()
    return [table, *(Text(f"The first {kind}: {text}") for kind, text in said)]
