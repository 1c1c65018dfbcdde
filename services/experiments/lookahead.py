"""Figures 5c and 10: the horizon K and the confidence decay gamma."""

from __future__ import annotations

from collections.abc import Sequence

from pbkv.report import Figure, Section, Series, line_chart
from services.experiments.claim import Claim, verdict
from services.experiments.measured import Measured, Sample
from services.experiments.scope import Scope, with_settings
from services.sim.grid import GridCell

HORIZONS = (1, 2, 3, 4, 5)
GAMMAS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
PAPER_HORIZON = 3
PAPER_GAMMA = 0.7
MATTERS_POINTS = 0.5
"""Best and worst that are less apart have no best."""
_POLICIES = ("he", "pbkv")


def _with_horizon(scope: Scope, policy: str, steps: int) -> GridCell:
    return with_settings(scope.cell("hover", policy), lookahead_steps=steps)


def _with_gamma(scope: Scope, gamma: float) -> GridCell:
    return with_settings(scope.cell("hover", "pbkv"), gamma=gamma)


def horizon_cells(scope: Scope) -> list[GridCell]:
    return [_with_horizon(scope, policy, steps) for steps in HORIZONS for policy in _POLICIES]


def gamma_cells(scope: Scope) -> list[GridCell]:
    return [_with_gamma(scope, gamma) for gamma in GAMMAS]


def horizon_section(scope: Scope, measured: Measured) -> Section:
    hits = {
        policy: [
            measured.of(_with_horizon(scope, policy, steps), "hit_rate", scope.sweep_seeds)
            for steps in HORIZONS
        ]
        for policy in _POLICIES
    }
    gaps = [pbkv.minus(he).mean for pbkv, he in zip(hits["pbkv"], hits["he"], strict=True)]
    claims = [
        _best_is(hits["pbkv"], HORIZONS, PAPER_HORIZON, "K"),
        Claim(
            "the gap between pbkv and he stays nearly constant over K",
            max(gaps) - min(gaps) < 1.0,
            f"{min(gaps):+.1f} to {max(gaps):+.1f} points",
        ),
    ]
    figure = _figure(hits, HORIZONS, "K, steps of a forecast")
    return Section("Figure 5c: lookahead horizon", (figure, *verdict(claims)))


def gamma_section(scope: Scope, measured: Measured) -> Section:
    hits = [
        measured.of(_with_gamma(scope, gamma), "hit_rate", scope.sweep_seeds) for gamma in GAMMAS
    ]
    figure = _figure({"pbkv": hits}, GAMMAS, "gamma, confidence decay")
    claims = [_best_is(hits, GAMMAS, PAPER_GAMMA, "gamma")]
    return Section("Figure 10: confidence decay", (figure, *verdict(claims)))


def _best_is(hits: Sequence[Sample], values: Sequence[float], paper: float, name: str) -> Claim:
    """Whether the paper's best value is ours, or one that seeds cannot tell from it; where values
    differ at all."""
    best = max(range(len(hits)), key=lambda place: hits[place].mean)
    behind = hits[best].minus(hits[values.index(paper)])
    spread = hits[best].mean - min(hit.mean for hit in hits)
    return Claim(
        f"{name} = {paper:g} gives the best hit rate",
        spread >= MATTERS_POINTS and behind.mean <= 2.0 * behind.error,
        f"{name} = {values[best]:g} does with {hits[best].mean:.1f} %, {behind.mean:.1f} ± "
        f"{behind.error:.1f} points above {paper:g}; best and worst are {spread:.1f} apart",
    )


def _figure(hits: dict[str, list[Sample]], values: Sequence[float], x_label: str) -> Figure:
    return line_chart(
        [
            (
                "HoVer, qwen3-32b",
                [
                    Series(
                        policy,
                        tuple(map(float, values)),
                        tuple(sample.mean for sample in line),
                        tuple(sample.error for sample in line),
                    )
                    for policy, line in hits.items()
                ],
            )
        ],
        x_label=x_label,
        y_label="hit rate, %",
        alt=f"Hit rate over {x_label}",
        caption="Bands are one standard error.",
    )
