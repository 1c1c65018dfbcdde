"""Figures 11 and 12: conservative and aggressive prefetch, and the quality of forecasts.

The paper's host tier is as large as the device pool and written through, so it holds next to
nothing that the device does not. A second panel has the regime in which prefetch has work: a host
tier four times as large, and wrong forecasts that are resampled, since eq. (5) hardly changes the
order of scores.
"""

from __future__ import annotations

from dataclasses import replace

from pbkv.report import Section, Series, Text, line_chart
from services.experiments.claim import Claim, verdict
from services.experiments.measured import Measured, Sample
from services.experiments.scope import Scope, with_settings
from services.sim.grid import GridCell

BUDGETS = (0.1, 0.2, 0.3, 0.4, 0.5)
NOISES = (0.0, 0.1, 0.2, 0.3, 0.4)
BEST_BUDGET = 0.2
HOST_RATIOS = (1.0, 4.0)
_POLICIES = ("he", "pbkv", "pbkv-aggressive")


def _budget(scope: Scope, host_ratio: float, rho: float) -> GridCell:
    cell = with_settings(scope.cell("hover", "pbkv-aggressive"), aggressive_rho=rho)
    return replace(cell, host_ratio=host_ratio)


def _conservative(scope: Scope, host_ratio: float) -> GridCell:
    return replace(scope.cell("hover", "pbkv"), host_ratio=host_ratio)


def _mixed(scope: Scope, policy: str, noise: float) -> GridCell:
    return with_settings(scope.cell("hover", policy), forecast_noise=noise)


def _resampled(scope: Scope, policy: str, noise: float) -> GridCell:
    return replace(scope.cell("hover", policy), accuracy=(1.0 - noise,), host_ratio=HOST_RATIOS[1])


def budget_cells(scope: Scope) -> list[GridCell]:
    return [
        cell
        for ratio in HOST_RATIOS
        for cell in (
            _conservative(scope, ratio),
            *(_budget(scope, ratio, rho) for rho in BUDGETS),
        )
    ]


def noise_cells(scope: Scope) -> list[GridCell]:
    return [
        make(scope, policy, noise)
        for make in (_mixed, _resampled)
        for noise in NOISES
        for policy in _POLICIES
    ]


def budget_section(scope: Scope, measured: Measured) -> Section:
    seeds = scope.sweep_seeds
    panels = []
    claims: list[Claim] = []
    x = tuple(100.0 * rho for rho in BUDGETS)
    for ratio in HOST_RATIOS:
        kept = measured.of(_conservative(scope, ratio), "hit_rate", seeds)
        taken = [measured.of(_budget(scope, ratio, rho), "hit_rate", seeds) for rho in BUDGETS]
        title = f"host tier {ratio:g}x the pool"
        conservative = Series("pbkv", x, (kept.mean,) * len(x), (kept.std,) * len(x))
        panels.append((title, [conservative, _series("pbkv-aggressive", x, taken)]))
        gains = [hit.minus(kept) for hit in taken]
        best = max(range(len(gains)), key=lambda place: gains[place].mean)
        claims.append(
            Claim(
                f"{title}, aggressive prefetch gains about 3 points at rho = 20 % and loses at "
                "large rho",
                BUDGETS[best] == BEST_BUDGET
                and gains[best].mean > 2.0 * gains[best].error
                and gains[-1].mean < 0.0,
                f"best is rho = {100 * BUDGETS[best]:.0f} % with {gains[best].mean:+.1f} ± "
                f"{gains[best].error:.1f} points, {gains[-1].mean:+.1f} at "
                f"{100 * BUDGETS[-1]:.0f} %",
            )
        )
        claims.append(
            Claim(
                f"{title}, the deviation over seeds grows with rho",
                taken[-1].std > taken[0].std > kept.std,
                f"{kept.std:.1f} points conservative, {taken[0].std:.1f} at rho = "
                f"{100 * BUDGETS[0]:.0f} %, {taken[-1].std:.1f} at {100 * BUDGETS[-1]:.0f} %",
            )
        )
    figure = line_chart(
        panels,
        x_label="rho, % of the pool",
        y_label="hit rate, %",
        alt="Hit rate of conservative and aggressive prefetch over the share rho of the pool that "
        "may be displaced, for two sizes of the host tier",
    )
    return Section("Figure 11: aggressive prefetch", (figure, *verdict(claims)))


def noise_section(scope: Scope, measured: Measured) -> Section:
    x = tuple(100.0 * noise for noise in NOISES)
    panels = []
    claims: list[Claim] = []
    spreads = []
    for title, make in (
        ("eq. (5), host tier 1x", _mixed),
        ("resampled, host tier 4x", _resampled),
    ):
        hits = {
            policy: [
                measured.of(make(scope, policy, noise), "hit_rate", scope.sweep_seeds)
                for noise in NOISES
            ]
            for policy in _POLICIES
        }
        panels.append((title, [_series(policy, x, line) for policy, line in hits.items()]))
        claims += _noise_claims(title, hits)
        means = [hit.mean for hit in hits["he"]]
        spreads.append(f"{title}: {max(means) - min(means):.1f} points")
    figure = line_chart(
        panels,
        x_label="lambda, %",
        y_label="hit rate, %",
        alt="Hit rate without, with conservative and with aggressive prefetch over forecast noise",
    )
    note = Text(
        "What noise from 0 to 40 % changes in the hit rate of he, which does not prefetch: "
        f"{'; '.join(spreads)}. Mixing in a uniform distribution lowers all scores alike and "
        "leaves most of their order; resampling makes a share lambda of perfect forecasts wrong."
    )
    return Section("Figure 12: forecast noise", (figure, note, *verdict(claims)))


def _noise_claims(title: str, hits: dict[str, list[Sample]]) -> list[Claim]:
    over_pbkv = [
        aggressive.minus(pbkv).mean
        for aggressive, pbkv in zip(hits["pbkv-aggressive"], hits["pbkv"], strict=True)
    ]
    over_he = [
        aggressive.minus(he).mean
        for aggressive, he in zip(hits["pbkv-aggressive"], hits["he"], strict=True)
    ]
    safe = [pbkv.minus(he) for pbkv, he in zip(hits["pbkv"], hits["he"], strict=True)]
    return [
        Claim(
            f"{title}, aggressive is above conservative up to 10 % noise and below from 20 %",
            min(over_pbkv[:2]) > 0.0 > max(over_pbkv[2:]),
            ", ".join(f"{gain:+.1f}" for gain in over_pbkv) + " points",
        ),
        Claim(
            f"{title}, aggressive falls below he from 30 % noise",
            max(over_he[3:]) < 0.0,
            ", ".join(f"{gain:+.1f}" for gain in over_he) + " points over he",
        ),
        Claim(
            f"{title}, conservative is never below he",
            all(gain.mean > -2.0 * gain.error - 0.05 for gain in safe),
            ", ".join(f"{gain.mean:+.1f}" for gain in safe) + " points over he",
        ),
    ]


def _series(label: str, x: tuple[float, ...], samples: list[Sample]) -> Series:
    means = tuple(sample.mean for sample in samples)
    return Series(label, x, means, tuple(sample.std for sample in samples))
