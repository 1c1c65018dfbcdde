"""Two runs side by side, with bootstrap confidence intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.errors import BadLoad
from loadgen.results import Results

_RESAMPLES = 2000
_LEVEL = 0.95

Samples = NDArray[np.float64]
"""(n,) values, or (n, 2) of cached and prompt tokens."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of both runs; ``change`` is the difference, second less first.

    ``sure`` says that the interval of the difference does not hold 0.
    """

    measure: str
    unit: str
    first: Estimate
    second: Estimate
    change: Estimate
    less_is_better: bool

    @property
    def sure(self) -> bool:
        return self.change.low > 0 or self.change.high < 0

    @property
    def verdict(self) -> str:
        if not self.sure:
            return "no clear difference"
        return "better" if (self.change.value < 0) == self.less_is_better else "worse"


def compare(first: Results, second: Results, *, seed: int = 0) -> list[Comparison]:
    """Every measure that both runs have. Raises :class:`BadLoad` if there is none.

    Workflows are resampled whole, so that the calls of one workflow, which are alike, do not
    narrow the interval of the hit rate.
    """
    if first.workload != second.workload:
        raise BadLoad(f"two workloads: {first.workload!r} and {second.workload!r}")
    rng = np.random.default_rng(seed)
    found = []
    for measure, unit, samples, statistic, less_is_better in _MEASURES:
        both = [np.asarray(samples(run), dtype=np.float64) for run in (first, second)]
        if all(len(values) for values in both):
            found.append(_compared(measure, unit, both, statistic, less_is_better, rng))
    if not found:
        raise BadLoad("the two runs have no measure in common: did any workflow finish?")
    return found


def _compared(
    measure: str,
    unit: str,
    both: list[Samples],
    statistic: Callable[[Samples], float],
    less_is_better: bool,
    rng: np.random.Generator,
) -> Comparison:
    values = [statistic(samples) for samples in both]
    draws = [_resampled(samples, statistic, rng) for samples in both]
    return Comparison(
        measure,
        unit,
        _estimate(values[0], draws[0]),
        _estimate(values[1], draws[1]),
        _estimate(values[1] - values[0], draws[1] - draws[0]),
        less_is_better,
    )


def _resampled(
    samples: Samples, statistic: Callable[[Samples], float], rng: np.random.Generator
) -> Samples:
    n = len(samples)
    return np.array([statistic(samples[rng.integers(0, n, n)]) for _ in range(_RESAMPLES)])


def _estimate(value: float, draws: Samples) -> Estimate:
    tail = (1 - _LEVEL) / 2
    low, high = np.quantile(draws, (tail, 1 - tail))
    return Estimate(value, float(low), float(high))


def _mean(samples: Samples) -> float:
    return float(samples.mean())


def _p95(samples: Samples) -> float:
    return float(np.quantile(samples, 0.95))


def _ratio(samples: Samples) -> float:
    return float(100.0 * samples[:, 0].sum() / max(samples[:, 1].sum(), 1.0))


_MEASURES: tuple[
    tuple[str, str, Callable[[Results], object], Callable[[Samples], float], bool], ...
] = (
    ("hit rate", "%", lambda run: run.tokens, _ratio, False),
    ("workflow latency, mean", "s", lambda run: run.workflow_latencies_s, _mean, True),
    ("workflow latency, p95", "s", lambda run: run.workflow_latencies_s, _p95, True),
    ("TTFT, mean", "s", lambda run: run.ttfts_s, _mean, True),
    ("TTFT, p95", "s", lambda run: run.ttfts_s, _p95, True),
)
