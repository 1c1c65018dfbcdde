"""What a usual workflow is, before and after the first one ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbkv.events import EventKind, WorkflowEvent
from pbkv.pace import WINDOW, Pace, WorkflowPace
from pbkv.workflow import WorkflowRegistry


def test_before_any_ended_the_bounds_from_below_stand():
    pace = WorkflowPace()
    assert pace.usual(50.0) == Pace(0.0, 1.0)

    pace.called(1, 10.0)
    pace.called(3, 12.0)

    assert pace.usual(50.0) == Pace(40.0, 3.0)


def test_the_mean_of_those_that_ended():
    pace = WorkflowPace()
    pace.called(1, 0.0)
    pace.ended(10.0, 4)
    pace.ended(30.0, 8)

    assert pace.usual(1e6) == Pace(pytest.approx(20.0), pytest.approx(6.0))


def test_old_workflows_fade():
    pace = WorkflowPace()
    for _ in range(10 * WINDOW):
        pace.ended(10.0, 4)
    for _ in range(5 * WINDOW):
        pace.ended(100.0, 40)

    assert pace.usual(0.0).duration_s == pytest.approx(100.0, rel=0.02)


def test_a_workflow_that_never_called_tells_nothing():
    pace = WorkflowPace()
    pace.ended(500.0, 0)

    assert pace.usual(0.0) == Pace(0.0, 1.0)


@given(st.floats(1.0, 1000.0), st.integers(0, 5000))
def test_something_is_always_left(calls, made):
    assert 0.0 < Pace(1.0, calls).calls_left(made) <= calls


def event(kind, workflow_id, at_s):
    return WorkflowEvent(kind, workflow_id, at_s, agent="a")


def test_the_registry_tells_it_of_every_end():
    registry = WorkflowRegistry(idle_timeout_s=100.0, max_active=10, max_retired=10)
    for at_s in (0.0, 5.0):
        registry.apply(event(EventKind.INVOKE, "done", at_s))
        registry.apply(event(EventKind.INVOKE, "silent", at_s + 1.0))

    registry.apply(event(EventKind.TERMINATE, "done", 8.0))
    assert registry.pace.usual(9.0) == Pace(8.0, 2.0)

    registry.apply(event(EventKind.TERMINATE, "done", 60.0))
    assert registry.pace.usual(61.0) == Pace(8.0, 2.0)

    registry.expire(200.0, lambda workflow_id: False)
    assert registry.pace.usual(201.0) == Pace(pytest.approx(6.5), pytest.approx(2.0))
