"""Curves that the pages of one run and of two have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadgen.records import RunRecords
from loadgen.timeline import hit_rate_over_time
from pbkv.report import Series

SHARE_LABEL = "of all, in % (cumulative)"
HOW_TO_READ_SHARES = (
    "The height of a line says how many per cent of all took that long or less; it crosses 50 % at "
    "the median and 95 % at the p95. "
)

_POINTS = 200


def shares(name: str, values: Sequence[float]) -> Series:
    """How many per cent of ``values`` (at least one) are at most x; x begins at 0."""
    part = np.linspace(0.0, 1.0, _POINTS)
    points = np.quantile(values, part)
    return Series(name, (0.0, *map(float, points)), (0.0, *map(float, 100 * part)))


def hit_rates(name: str, records: RunRecords) -> Series | None:
    """The hit rate, in per cent, over the seconds of a run; None if no answer told it."""
    times_s, rates = hit_rate_over_time(records)
    if not times_s:
        return None
    return Series(name, times_s, tuple(100 * rate for rate in rates))
