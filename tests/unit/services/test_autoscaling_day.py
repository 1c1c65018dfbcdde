"""The simulated day: its traffic, and that both policies serve all of it."""

from __future__ import annotations

import pytest

from pbkv.workload import make_workflows
from scripts.autoscaling_day import TROUGH_SHARE, Day, run


def test_the_traffic_follows_the_day_and_its_seed() -> None:
    day = Day(hours=10, peak_per_s=1.0, seed=3)
    starts = day.starts_s()
    assert starts == sorted(starts) == day.starts_s()
    hour_s = 3600
    night = sum(start < hour_s for start in starts) / hour_s
    noon = sum(4.5 * hour_s < start < 5.5 * hour_s for start in starts) / hour_s
    assert TROUGH_SHARE < night < 0.2
    assert 0.9 < noon < 1.05


@pytest.mark.parametrize(("policy", "target"), [("working-set", 0.9), ("ongoing-requests", 2.0)])
def test_both_policies_serve_everything_and_pay_for_no_more_than_the_bounds(
    policy: str, target: float
) -> None:
    day = Day(hours=0.1, peak_per_s=0.1)
    count = len(day.starts_s())
    scripts = make_workflows("swebench", count, seed=0, scale=1.0, data_dir=None)
    row = run(day, scripts, policy, target, kv_tokens=60_000)
    assert 1 <= row.replicas_peak <= 16
    assert 0 < row.gpu_hours <= 16 * 1.0
    assert 0 < row.hit_rate < 1
    assert row.latency_mean_s <= row.latency_p95_s
