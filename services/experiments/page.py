"""The report of chosen experiments."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pbkv.report import Report, Section, Table, report_markdown, write_html
from pbkv.report.document import Cell
from services.experiments import overhead
from services.experiments.catalogue import EXPERIMENTS, TABLE4
from services.experiments.measured import Measured
from services.experiments.scope import MODELS, PAPER_GPU, WORKLOADS, Scope

TITLE = "The paper's tables and figures, simulated"


def build(
    names: Iterable[str],
    scope: Scope,
    measured: Measured,
    *,
    policy_rows: list[dict[str, Any]],
    policy_problem: str,
    env: dict[str, Any],
) -> Report:
    """One section per experiment, in the order of ``names``, and the points they start from."""
    sections = [
        overhead.section(policy_rows, policy_problem)
        if name == TABLE4
        else EXPERIMENTS[name].section(scope, measured)
        for name in names
    ]
    origin = "generated sample data" if scope.data_dir is None else "the real data sets given"
    lead = (
        f"Made by pbkv experiments paper on {env['date']} with pbkv {env['versions']['pbkv']}, "
        f"Python {platform.python_version()}, {env['cores']} cores. Workflows are scripted from "
        f"{origin}. The policies are the engine's own objects in simulated time; the engine's tree "
        "and the simulator's find the same tokens call by call (pbkv replay). Times are simulated "
        f"seconds on {PAPER_GPU}; {scope.seeds} seeds for the tables, {scope.sweep_seeds} for the "
        "rest, the same workflows for every policy of a seed."
    )
    return Report(TITLE, lead, (*sections, _points(scope)))


def write(report: Report, folder: Path) -> tuple[Path, Path]:
    """Write the page and its Markdown; answers their paths."""
    html, markdown = folder / "paper.html", folder / "paper.md"
    write_html(html, report)
    markdown.write_text(report_markdown(report), encoding="utf-8")
    return html, markdown


def _points(scope: Scope) -> Section:
    rows: list[list[Cell]] = []
    for model in MODELS:
        for workload in WORKLOADS:
            point = scope.cell(workload, "lru", model).point
            rows.append(
                [
                    workload,
                    model,
                    point.workflows,
                    point.concurrency,
                    point.scale,
                    point.kv_tokens,
                    point.max_running_requests,
                ]
            )
    table = Table.of(
        (
            "workload",
            "model",
            "workflows",
            "at a time",
            "scale of prompts",
            "KV pool, tokens",
            "running requests",
        ),
        rows,
        caption="Concurrency is the paper's; scale, pool and running requests are fitted to its "
        "LRU row alone",
        row_headers=2,
    )
    return Section("Operating points", (table,))
