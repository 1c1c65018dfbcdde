"""Figure 5b: what the accuracy of the predictor is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from pbkv.report import Section, Table, Text, bar_chart
from services.experiments.claim import Claim, verdict
from services.experiments.measured import Measured
from services.experiments.paper import accuracies
from services.experiments.scope import Scope
from services.sim.grid import GridCell


def _predicted(scope: Scope, accuracy: tuple[float, ...]) -> GridCell:
    return replace(scope.cell("hover", "pbkv"), accuracy=accuracy)


def cells(scope: Scope) -> list[GridCell]:
    forecast = [_predicted(scope, accuracy) for accuracy in accuracies().values()]
    return [*forecast, *(scope.cell("hover", policy) for policy in ("lru", "lae", "pbkv"))]


def section(scope: Scope, measured: Measured) -> Section:
    seeds = scope.sweep_seeds
    lru, lae, own = (
        measured.of(scope.cell("hover", policy), "hit_rate", seeds)
        for policy in ("lru", "lae", "pbkv")
    )
    hits = {
        name: measured.of(_predicted(scope, accuracy), "hit_rate", seeds)
        for name, accuracy in accuracies().items()
    }
    ratios: Mapping[str, float] = {
        **{name: hit.mean / lru.mean for name, hit in hits.items()},
        "markov, as it serves": own.mean / lru.mean,
        "none (lae)": lae.mean / lru.mean,
    }
    figure = bar_chart(
        list(ratios),
        [("hit rate over LRU's", list(ratios.values()))],
        y_label="hit rate over LRU's",
        alt="Hit rate of pbkv over that of LRU, by predictor",
    )
    table = Table.of(
        ("predictor", "s1", "s2", "s3", "hit %", "over LRU"),
        [
            [name, *(f"{step:.3f}" for step in steps), hits[name].text(), f"{ratios[name]:.2f}"]
            for name, steps in accuracies().items()
        ],
        caption="accuracies are the paper's (Table 3)",
    )
    names = list(hits)
    weakest = hits[names[-1]].minus(lae)
    claims = [
        Claim(
            "the more accurate predictor gives the higher hit rate",
            all(hits[better].mean > hits[worse].mean for better, worse in pairwise(names)),
            ", ".join(f"{name} {hit.mean:.1f} %" for name, hit in hits.items()),
        ),
        Claim(
            "the weakest predictor is still above lae, which has none",
            weakest.mean > 2.0 * weakest.error,
            f"{weakest.mean:+.1f} ± {weakest.error:.1f} points",
        ),
    ]
    note = Text(
        "The predictors themselves need the hidden states of a real model. Here forecasts are made "
        "from the scripts, right as often as the paper's Table 3 says at each step, wrong ones "
        "drawn by how often agents are called. The predictor of the other tables is a Markov "
        "model that learns as it serves."
    )
    return Section("Figure 5b: predictors", (note, figure, table, *verdict(claims)))
