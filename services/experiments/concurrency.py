"""Figure 5a: hit rate over the number of workflows at a time."""

from __future__ import annotations

from itertools import pairwise

from pbkv.report import Section, Series, Text, line_chart
from services.experiments.claim import Claim, verdict
from services.experiments.measured import Measured
from services.experiments.scope import Scope, at_concurrency
from services.sim.grid import GridCell

CONCURRENCIES = (48, 60, 72, 84, 96)
POLICIES = ("lru", "lae", "he", "pbkv")
CALM_POINTS = 10.0
"""Hit rates that differ by less are not told apart."""


def cells(scope: Scope) -> list[GridCell]:
    return [
        at_concurrency(scope.cell("hover", policy), concurrency)
        for concurrency in CONCURRENCIES
        for policy in POLICIES
    ]


def section(scope: Scope, measured: Measured) -> Section:
    hits = {
        policy: [
            measured.of(
                at_concurrency(scope.cell("hover", policy), concurrency),
                "hit_rate",
                scope.sweep_seeds,
            )
            for concurrency in CONCURRENCIES
        ]
        for policy in POLICIES
    }
    x = tuple(map(float, CONCURRENCIES))
    figure = line_chart(
        [
            (
                "HoVer, qwen3-32b",
                [
                    Series(p, x, tuple(s.mean for s in hit), tuple(s.std for s in hit))
                    for p, hit in hits.items()
                ],
            )
        ],
        x_label="workflows at a time",
        y_label="hit rate, %",
        alt="Hit rate of each policy over the number of workflows at a time",
        y_range=(0.0, 100.0),
    )
    # Two standard errors: what seeds alone can do is no rise.
    rises = [
        policy
        for policy, line in hits.items()
        if any(after.minus(before).mean > 2.0 * after.minus(before).error + 0.5
               for before, after in pairwise(line))
    ]  # fmt: skip
    gains = [pbkv.minus(lru) for pbkv, lru in zip(hits["pbkv"], hits["lru"], strict=True)]
    calm, busy = gains[0], gains[-1]
    claims = [
        Claim(
            "all hit rates fall as concurrency rises",
            not rises,
            f"none rises from {CONCURRENCIES[0]} to {CONCURRENCIES[-1]}"
            if not rises
            else f"{', '.join(rises)} rise somewhere",
        ),
        Claim(
            "pbkv is far above LRU under pressure",
            all(gain.mean > 2.0 * gain.error for gain in gains[2:]),
            f"{gains[2].mean:.1f} points at {CONCURRENCIES[2]}, {busy.mean:.1f} at "
            f"{CONCURRENCIES[-1]}",
        ),
        Claim(
            "below 60 workflows evictions are too rare to tell policies apart",
            calm.mean < CALM_POINTS,
            f"{calm.mean:.1f} points between pbkv and LRU at {CONCURRENCIES[0]}",
        ),
    ]
    note = Text(
        "Not compared: the paper's LRU runs out of memory at 84 workflows and more. Admission "
        "control, in SGLang as in the simulator, lets requests wait instead."
    )
    return Section("Figure 5a: concurrency", (figure, *verdict(claims), note))
