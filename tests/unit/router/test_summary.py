"""Counts as a page draws them."""

import math

import pytest

from router.activity import INTERVAL_S, WINDOW_S, Seen
from router.dashboard.summary import quantile, summarize

NOW_S = 100_000.0
LAST = int(NOW_S // INTERVAL_S)


def test_only_intervals_that_are_over_are_points_and_missing_ones_are_zero():
    counts = {"status:200": 4, "status:503": 1, "status:499": 2, "broken:replica_lost": 3}
    counts |= {"broken:client_left": 9, "prompt": 100, "cached": 40, "ttft:0.5": 1, "ttft:+Inf": 2}
    seen = Seen("fleet", NOW_S, {LAST - 2: counts, LAST: {"status:200": 7}})
    shown = summarize(seen)
    points = shown["points"]
    assert len(points) == WINDOW_S // INTERVAL_S
    # The interval of now has only begun, and the one before may not be told by all.
    assert points[-1]["at"] == (LAST - 2) * INTERVAL_S
    assert points[-1] == {
        "at": (LAST - 2) * INTERVAL_S,
        "requests": 7,
        "failed": 4,
        "prompt_tokens": 100,
        "cached_tokens": 40,
        "ttft_p50_s": 0.5,
        "ttft_p95_s": 0.5,
    }
    assert points[0]["requests"] == 0
    assert points[0]["ttft_p50_s"] is None
    assert shown["statuses"] == {"200": 11, "499": 2, "503": 1}
    assert shown["broken_answers"] == {"client_left": 9, "replica_lost": 3}
    assert (shown["pin_moves"], shown["retries"]) == ({}, 0)


@pytest.mark.parametrize(
    ("below", "share", "expected"),
    [
        ([], 0.5, None),
        ([(0.1, 0), (math.inf, 0)], 0.5, None),
        ([(0.1, 10), (math.inf, 10)], 0.5, 0.05),
        ([(0.1, 5), (0.2, 10), (math.inf, 10)], 0.75, 0.15),
        # Beyond the last bound only that it is beyond is known.
        ([(0.1, 5), (math.inf, 10)], 0.95, 0.1),
    ],
)
def test_quantile(below, share, expected):
    found = quantile(below, share)
    assert found == (None if expected is None else pytest.approx(expected))
