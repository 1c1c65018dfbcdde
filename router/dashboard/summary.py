"""Counts of the last minutes as a page draws them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from router.activity import INTERVAL_S, SAMPLE_S, WINDOW_S, Counts, Seen
from router.metrics import BROKEN, CACHED, MOVED, PROMPT, RETRIED, STATUS, TTFT

_CLIENT_LEFT_STATUS = 499
_CLIENT_LEFT = "client_left"


def summarize(seen: Seen) -> dict[str, Any]:
    """A point per interval that is over, oldest first, and totals by reason."""
    # What began before now less one sample may not have been told by every router yet.
    end = int((seen.now_s - SAMPLE_S) // INTERVAL_S)
    wanted = range(end - WINDOW_S // INTERVAL_S, end)
    total: Counter[str] = Counter()
    for counts in seen.intervals.values():
        total.update(counts)
    return {
        "object": "activity",
        "scope": seen.scope,
        "now": seen.now_s,
        "interval_s": INTERVAL_S,
        "window_s": WINDOW_S,
        "points": [_point(i * INTERVAL_S, seen.intervals.get(i, {})) for i in wanted],
        "statuses": _group(total, STATUS),
        "broken_answers": _group(total, BROKEN),
        "pin_moves": _group(total, MOVED),
        "retries": total[RETRIED],
    }


def _point(at_s: int, counts: Counts) -> dict[str, Any]:
    statuses = _group(counts, STATUS)
    broken = _group(counts, BROKEN)
    failed = sum(
        count
        for status, count in statuses.items()
        if int(status) >= 400 and int(status) != _CLIENT_LEFT_STATUS
    )
    failed += sum(count for reason, count in broken.items() if reason != _CLIENT_LEFT)
    below = sorted((float(bound), count) for bound, count in _group(counts, TTFT).items())
    return {
        "at": at_s,
        "requests": sum(statuses.values()),
        "failed": failed,
        "prompt_tokens": counts.get(PROMPT, 0),
        "cached_tokens": counts.get(CACHED, 0),
        "ttft_p50_s": quantile(below, 0.5),
        "ttft_p95_s": quantile(below, 0.95),
    }


def quantile(below: Sequence[tuple[float, int]], share: float) -> float | None:
    """A quantile from counts below ascending bounds, by straight lines between the bounds, as
    Prometheus' ``histogram_quantile``; None without counts. Bounds without growth may be missing.
    """
    if not below or not below[-1][1]:
        return None
    rank = share * below[-1][1]
    low, under = 0.0, 0
    for bound, count in below:
        if count >= rank:
            if math.isinf(bound):
                return low
            return low + (bound - low) * (rank - under) / max(1, count - under)
        low, under = bound, count
    return low


def _group(counts: Counts, prefix: str) -> dict[str, int]:
    named: Iterable[tuple[str, int]] = (
        (name.removeprefix(prefix), count)
        for name, count in counts.items()
        if name.startswith(prefix)
    )
    return dict(sorted(named))
