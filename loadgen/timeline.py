"""Hit rate over the time of a run, and the moments that part it into phases (Figure 6)."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.records import RunRecords
from loadgen.summary import hit_rate

_BINS = 40
_MIN_BIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Phases:
    """The run fills up until ``full_s``, is steady until ``draining_s``, then runs empty.

    Both are where the number of workflows under way first and last reaches nine tenths of its
    largest; ``warm_until_s`` is the end of the last workflow that only warmed up, 0 without one.
    """

    warm_until_s: float
    full_s: float
    draining_s: float


def hit_rate_over_time(records: RunRecords) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Middles of equal slices of time, and the hit rate of the calls answered in each.

    Slices in which nothing was answered are left out. Warm-up included: it is a phase.
    """
    width_s = max(records.duration_s / _BINS, _MIN_BIN_S)
    bins: dict[int, list[int]] = {}
    for index, call in enumerate(records.calls):
        bins.setdefault(int(call.finished_s / width_s), []).append(index)
    points = [
        ((bin_ + 0.5) * width_s, hit_rate(records.calls[index] for index in bins[bin_]))
        for bin_ in sorted(bins)
    ]
    known = [(at_s, rate) for at_s, rate in points if rate is not None]
    return tuple(at_s for at_s, _ in known), tuple(rate for _, rate in known)


def phases_of(records: RunRecords) -> Phases:
    """From when workflows started and ended."""
    changes = sorted(
        [(w.started_s, 1) for w in records.workflows]
        + [(w.finished_s, -1) for w in records.workflows]
    )
    level, levels = 0, []
    for at_s, change in changes:
        level += change
        levels.append((at_s, level))
    most = max((level for _, level in levels), default=0)
    high = [at_s for at_s, level in levels if level >= 0.9 * most] or [0.0]
    warm = [w.finished_s for w in records.workflows if w.warm_up]
    return Phases(max(warm, default=0.0), high[0], high[-1])
