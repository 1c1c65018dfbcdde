from __future__ import annotations

import pytest

from pbkv.errors import SettingsError
from pbkv.sim import simulate
from pbkv.sim.cluster import ClusterShape, simulate_cluster
from tests.unit.sim.scenes import hover, pressed, workflow


def test_one_replica_is_the_engine_alone() -> None:
    alone = simulate(pressed("lae"), hover(16))

    assert simulate_cluster(pressed("lae"), hover(16), ClusterShape(1)).served == alone


def test_workflows_spread_and_stay_where_they_are() -> None:
    scripts = hover(40)
    result = simulate_cluster(pressed("lae", concurrency=40), scripts, ClusterShape(4))

    assert result.served.workflows == 40
    assert result.pins_mean == 10.0
    assert result.pins_most <= 13
    # A workflow that moved would find nothing: its calls after the first find at least the system
    # prompt and most of the transcript.
    assert result.served.hit_rate > 0.5


def test_more_replicas_serve_sooner() -> None:
    few, many = (
        simulate_cluster(pressed("lae", concurrency=40), hover(40), ClusterShape(replicas))
        for replicas in (1, 4)
    )
    assert many.served.latency_mean_s < few.served.latency_mean_s / 2


def test_a_burst_starts_replicas_which_drain_after_it() -> None:
    burst = [workflow(f"b{n}", *[(40, 20)] * 6) for n in range(60)]
    trickle = [workflow(f"t{n}", (40, 20)) for n in range(40)]
    starts = [1.0 + 1.5 * n for n in range(60)] + [300.0 + 20.0 * n for n in range(40)]
    shape = ClusterShape(
        replicas=1,
        max_replicas=4,
        workflows_per_replica=10,
        start_up_s=15.0,
        interval_s=5.0,
        down_delay_s=30.0,
    )
    result = simulate_cluster(pressed("lae"), [*burst, *trickle], shape, starts_s=starts)

    assert result.served.workflows == 100
    assert result.replicas_peak == 4
    # Paid for four only as long as the burst lasted.
    assert result.replica_seconds < 2 * result.served.duration_s


def test_nothing_runs_before_a_replica_has_started() -> None:
    slow, quick = (
        simulate_cluster(
            pressed("lae"),
            hover(40),
            ClusterShape(1, max_replicas=4, workflows_per_replica=10, start_up_s=s, interval_s=1.0),
            starts_s=[0.0] * 20 + [60.0] * 20,
        )
        for s in (100.0, 5.0)
    )
    assert quick.served.latency_mean_s < slow.served.latency_mean_s


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicas": 0}, "at least 1"),
        ({"replicas": 3, "max_replicas": 2}, "less than 3"),
        ({"replicas": 1, "interval_s": 0.0}, "interval_s"),
    ],
)
def test_shapes_that_cannot_be_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ClusterShape(**values)  # type: ignore[arg-type]


def test_another_scaler_decides_within_the_bounds() -> None:
    asked: list[tuple[int, int]] = []

    def scaler(ready: object, present: int) -> int:
        asked.append((len(ready), present))  # type: ignore[arg-type]
        return 99

    starts = [2.0 * n for n in range(30)]
    shape = ClusterShape(replicas=1, max_replicas=3, start_up_s=15.0, interval_s=5.0)
    scripts = [workflow(f"s{n}", *[(40, 20)] * 4) for n in range(30)]
    result = simulate_cluster(pressed("lae"), scripts, shape, starts_s=starts, scaler=scaler)

    assert result.replicas_peak == result.replicas_started == 3
    assert asked[0] == (1, 1)
    assert asked[1] == (1, 3)
