"""The results of an evaluation for people: tables, curves, and what they show in words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from pbkv.hidden_source import layer_of
from pbkv.report import Block, Report, Section, Series, Table, Text, line_chart
from services.predict.grid import LAYERS, MAIN, SIZES
from services.predict.paper import TABLE_3

Rows = Sequence[dict[str, Any]]
_STEPS = (1, 2, 3)


def summary(rows: Rows, *, with_paper: bool) -> list[str | Table]:
    """What is printed: per source its table, the remaining calls and the verdict."""
    parts: list[str | Table] = []
    for source in main_sources(rows):
        parts.append(f"Hidden states: {source}")
        parts.append(main_table(rows, source, with_paper=with_paper))
        remaining = remaining_table(rows, source)
        parts += [remaining] if remaining.rows else []
        parts.append(verdict(rows, source))
    return parts


def main_sources(rows: Rows) -> list[str]:
    """Sources of the hidden states that all families were compared on."""
    return list(dict.fromkeys(row["source"] for row in rows if row["part"] == MAIN))


def main_table(rows: Rows, source: str, *, with_paper: bool) -> Table:
    """Table 3: mean and spread over seeds, beside the paper's means where they compare."""
    columns = ["predictor", "runs", "s1", "s2", "s3"]
    columns += ["paper s1", "s2", "s3"] if with_paper else []
    columns += ["ECE 1", "ECE 2", "ECE 3", "parameters", "1,024 prefixes, ms", "training, s"]
    lines = []
    for (family, variant), group in _groups(rows, source).items():
        line: list[str | int | None] = [_name(family, variant), len(group)]
        line += [_mean_and_spread(group, f"s{k}") for k in _STEPS]
        if with_paper:
            paper = TABLE_3.get((family, variant))
            line += [f"{value:.3f}" for value in paper] if paper else [None] * 3
        line += [f"{_mean(group, f'ece{k}'):.3f}" for k in _STEPS]
        line += [
            f"{group[0]['parameters']:,}",
            f"{_mean(group, 'infer_1024_ms'):.2f}",
            f"{_mean(group, 'train_s'):.1f}",
        ]
        lines.append(line)
    return Table.of(columns, lines, caption="Mean and standard deviation over seeds.")


def remaining_table(rows: Rows, source: str) -> Table:
    """Error of the expected remaining calls beside that of the latest agent's mean."""
    lines = [
        [
            _name(family, variant),
            f"{_mean(group, 'remaining_mae'):.2f}",
            f"{_mean(group, 'remaining_mae_agent_mean'):.2f}",
            f"{100 * _mean(group, 'remaining_within_2_spreads'):.0f}",
        ]
        for (family, variant), group in _groups(rows, source).items()
        if group[0]["remaining_mae"] is not None
    ]
    columns = ["predictor", "mean error, calls", "per-agent mean", "within 2 spreads, %"]
    return Table.of(columns, lines, caption="Mean absolute error of the number of calls to come.")


def verdict(rows: Rows, source: str) -> str:
    """Which variant is ahead at each horizon, in one sentence."""
    groups = _groups(rows, source)
    if not groups:
        return "Nothing was measured."
    parts = []
    for k in _STEPS:
        ranked = sorted(groups.items(), key=lambda item: -_mean(item[1], f"s{k}"))
        best = ranked[0]
        part = f"s{k}: {_name(*best[0])} {_mean(best[1], f's{k}'):.3f}"
        if len(ranked) > 1:
            second = ranked[1]
            part += f", then {_name(*second[0])} {_mean(second[1], f's{k}'):.3f}"
        parts.append(part)
    return "Ahead at " + "; ".join(parts) + "."


def evaluation_report(rows: Rows, command: Sequence[str], *, workload: str, origin: str) -> Report:
    """The page."""
    sections = [
        Section(
            f"Comparison of families (Table 3), hidden states: {source}",
            (
                Text(verdict(rows, source)),
                main_table(rows, source, with_paper=workload == "hover"),
            ),
        )
        for source in main_sources(rows)
    ]
    if any(row["part"] == SIZES for row in rows):
        sections.append(Section("Training size (Figure 8)", (_size_chart(rows),)))
    if any(row["part"] == LAYERS for row in rows):
        sections.append(Section("Layer of the hidden state (Figure 9)", _layer_blocks(rows)))
    for source in main_sources(rows):
        sections.append(
            Section(f"Calibration, hidden states: {source}", (_reliability_chart(rows, source),))
        )
        remaining = remaining_table(rows, source)
        if remaining.rows:
            sections.append(Section(f"Remaining calls, hidden states: {source}", (remaining,)))
    sections.append(Section("Data", (Text(origin),)))
    return Report(
        f"Predictors on {workload}", f"Made by: pbkv {' '.join(command)}", tuple(sections)
    )


def _size_chart(rows: Rows) -> Block:
    source = next(row["source"] for row in rows if row["part"] == SIZES)
    panels = []
    for k in _STEPS:
        lines = []
        for family, variant in _groups(rows, source):
            points: dict[int, list[float]] = {}
            for row in rows:
                same = (row["family"], row["variant"]) == (family, variant)
                if same and row["source"] == source and row["part"] != LAYERS:
                    points.setdefault(row["train_traces"], []).append(row[f"s{k}"])
            sizes = sorted(points)
            means = tuple(statistics.mean(points[size]) for size in sizes)
            lines.append(
                Series(
                    _name(family, variant), tuple(sizes), means, dashed=family in ("markov", "knn")
                )
            )
        panels.append((f"step {k}", lines))
    return line_chart(
        panels,
        x_label="training traces",
        y_label="top-1 accuracy",
        log_x=True,
        alt="Accuracy of each predictor at steps 1 to 3 over the number of training traces.",
    )


def _layer_blocks(rows: Rows) -> tuple[Block, ...]:
    """GraphSAGE trained on the output of each block, and on the post-norm state last."""
    by_source: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        plain = (row["family"], row["variant"]) == ("graphsage", "")
        if plain and row["part"] in (MAIN, LAYERS):
            by_source.setdefault(row["source"], []).append(row)
    # Post-norm, which is after the last layer, is measured first.
    sources = sorted(by_source, key=lambda source: layer_of(source) or math.inf)
    layers = [layer for source in sources if (layer := layer_of(source)) is not None]
    # Post-norm comes one step of the scan after the last layer.
    step = layers[1] - layers[0] if len(layers) > 1 else 1
    places = tuple(layer_of(source) or layers[-1] + step for source in sources)
    lines = [
        Series(f"s{k}", places, tuple(_mean(by_source[source], f"s{k}") for source in sources))
        for k in _STEPS
    ]
    chart = line_chart(
        [("GraphSAGE", lines)],
        x_label="layer of the hidden state; the last point: post-norm",
        y_label="top-1 accuracy",
        panel_inches=5.0,
        alt="Accuracy of GraphSAGE at steps 1 to 3 over the layer that the hidden state is from.",
    )
    table = Table.of(
        ["source", "runs", "s1", "s2", "s3"],
        [
            [
                source,
                len(by_source[source]),
                *(_mean_and_spread(by_source[source], f"s{k}") for k in _STEPS),
            ]
            for source in sources
        ],
    )
    return chart, table


def _reliability_chart(rows: Rows, source: str) -> Block:
    panels = []
    for k in _STEPS:
        lines = [Series("perfect", (0.0, 1.0), (0.0, 1.0), dashed=True)]
        for (family, variant), group in _groups(rows, source).items():
            # Confidence bins of the first seed: a mean over seeds would mix different bins.
            bins = group[0]["reliability"][k - 1]
            lines.append(
                Series(
                    _name(family, variant),
                    tuple(confidence for confidence, _, _ in bins),
                    tuple(accuracy for _, accuracy, _ in bins),
                )
            )
        panels.append((f"step {k}", lines))
    return line_chart(
        panels,
        x_label="confidence",
        y_label="accuracy",
        alt="Accuracy over confidence per predictor; on the diagonal, probabilities are right.",
        caption="First seed. Below the diagonal a predictor is too sure of itself.",
    )


def _groups(rows: Rows, source: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rows of the main table on that source, by variant."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["part"] == MAIN and row["source"] == source:
            groups.setdefault((row["family"], row["variant"]), []).append(row)
    return groups


def _name(family: str, variant: str) -> str:
    return f"{family} {variant}".strip()


def _mean(group: Rows, key: str) -> float:
    return float(statistics.mean(row[key] for row in group))


def _mean_and_spread(group: Rows, key: str) -> str:
    mean = f"{_mean(group, key):.3f}"
    if len(group) < 2:
        return mean
    # Not statistics.stdev, which fails on the NaN of a step that no workflow reached.
    return f"{mean} ± {np.std([row[key] for row in group], ddof=1):.3f}"
