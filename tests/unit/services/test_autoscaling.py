"""The autoscaling policy: as a function, and as Serve calls it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.autoscaling import ReplicaDemand, Target, WorkflowAutoscaling, wanted_replicas

TARGET = Target(active_fraction=0.75, queued_requests=4.0, slack=0.2)


def spread(total_active: float, total_queued: float, replicas: int) -> list[ReplicaDemand]:
    """A load that is shared evenly."""
    one = ReplicaDemand(total_active / replicas, total_queued / replicas)
    return [one] * replicas


@pytest.mark.parametrize(
    ("demands", "replicas", "wanted"),
    [
        (spread(0.0, 0, 5), 5, 1),
        (spread(0.7, 0, 1), 1, 1),
        (spread(1.8, 0, 2), 2, 3),
        (spread(0.0, 9, 2), 2, 3),
        (spread(2.0, 30, 2), 2, 8),
        # 2.1 / 0.75 = 2.8 fit into 3, but not with the slack: 4 stay.
        (spread(2.1, 0, 4), 4, 4),
        (spread(1.7, 0, 4), 4, 3),
    ],
)
def test_how_many(demands: list[ReplicaDemand], replicas: int, wanted: int) -> None:
    assert wanted_replicas(demands, replicas, TARGET) == wanted


def test_a_starting_replica_takes_none_away_but_lets_more_come() -> None:
    assert wanted_replicas(spread(0.0, 0, 2), 3, TARGET) == 3
    assert wanted_replicas(spread(2.0, 20, 2), 3, TARGET) == 5
    assert wanted_replicas([], 2, TARGET) == 2


@given(
    load=st.floats(0, 50),
    queue=st.floats(0, 200),
    start=st.integers(1, 80),
    slack=st.floats(0, 0.9),
)
def test_a_constant_load_settles_in_two_steps(
    load: float, queue: float, start: int, slack: float
) -> None:
    target = Target(slack=slack)
    counts = [start]
    for _ in range(5):
        demands = spread(load, queue, counts[-1])
        counts.append(wanted_replicas(demands, counts[-1], target))
    assert len(set(counts[2:])) == 1, counts


@given(load=st.floats(0, 20), more=st.floats(0, 20), replicas=st.integers(1, 30))
def test_more_load_never_asks_for_fewer(load: float, more: float, replicas: int) -> None:
    before = wanted_replicas(spread(load, 0, replicas), replicas, TARGET)
    assert wanted_replicas(spread(load + more, 0, replicas), replicas, TARGET) >= before


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"target_active_fraction": 0}, "active_fraction is 0"),
        ({"target_queued_requests": -1}, "queued_requests is -1"),
        ({"slack": 1}, "slack is 1"),
        ({"drain_limit_s": -1}, "drain_limit_s is -1"),
    ],
)
def test_targets_that_make_no_sense_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WorkflowAutoscaling(**values)


@dataclass
class Context:
    """The part of Serve's context that the policy reads."""

    target_num_replicas: int
    running_replicas: list[str]
    aggregated_metrics: dict[str, dict[str, float]] | None = field(default_factory=dict)
    policy_state: dict[str, Any] = field(default_factory=dict)
    last_scale_down_time: float | None = None
    current_time: float = 1000.0


def test_what_replicas_report_is_read_from_the_context() -> None:
    policy = WorkflowAutoscaling(target_active_fraction=0.75)
    metrics = {"kv_active_frac": {"a": 0.9, "b": 0.9}, "queued_requests": {"a": 0.0, "b": 1.0}}
    assert policy(Context(2, ["a", "b"], metrics)) == (3, {})
    assert policy(Context(2, ["a", "b"], None)) == (2, {})


def test_a_replica_that_is_gone_no_longer_counts() -> None:
    metrics = {"kv_active_frac": {"a": 0.9, "gone": 0.9}}
    policy = WorkflowAutoscaling(target_active_fraction=0.75)
    assert policy(Context(1, ["a"], metrics)) == (2, {})


def test_none_is_taken_away_while_another_may_drain() -> None:
    policy = WorkflowAutoscaling(drain_limit_s=100)
    idle = {"kv_active_frac": dict.fromkeys("abcd", 0.05)}
    assert policy(Context(4, list("abcd"), idle)) == (1, {"most_wanted": 1})
    for went_at_s, wanted in ((901.0, 4), (900.0, 1)):
        context = Context(4, list("abcd"), idle, last_scale_down_time=went_at_s)
        assert policy(context)[0] == wanted
    busy = {"kv_active_frac": dict.fromkeys("abcd", 1.0), "queued_requests": {"a": 40.0}}
    context = Context(4, list("abcd"), busy, last_scale_down_time=999.0)
    assert policy(context) == (10, {})


def test_one_low_reading_takes_none_away() -> None:
    policy = WorkflowAutoscaling(drain_limit_s=0)
    state: dict[str, Any] = {}
    answers = []
    for fraction in (0.4, 0.05, 0.05):
        reading = {"kv_active_frac": dict.fromkeys("abcd", fraction)}
        count, state = policy(Context(4, list("abcd"), reading, policy_state=state))
        answers.append(count)
    assert answers == [3, 3, 3]
    # Once three are what there is, the past no longer counts.
    assert policy(Context(3, list("abc"), {"kv_active_frac": {}}, policy_state=state)) == (3, {})


def test_serve_takes_the_policy_and_adds_its_delays() -> None:
    serve_config = pytest.importorskip("ray.serve.config", reason="needs the engine extra")
    from ray.serve._private.autoscaling_state import _resolve_policy_callable

    config = serve_config.AutoscalingConfig(
        min_replicas=1,
        max_replicas=4,
        policy={
            "policy_function": "services.autoscaling:WorkflowAutoscaling",
            "policy_kwargs": {"target_active_fraction": 0.5},
        },
    )
    policy = _resolve_policy_callable(config.policy)
    metrics = {"kv_active_frac": {"a": 0.9}}
    assert policy(Context(1, ["a"], metrics)) == (2, {})
