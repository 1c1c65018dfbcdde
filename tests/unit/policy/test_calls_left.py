"""How many calls a forecast leaves a workflow, which the order of the queue goes by."""

import numpy as np
import pytest

from pbkv.events import EventKind, WorkflowEvent
from pbkv.forecast import Forecast
from pbkv.policy import make_policy
from pbkv.settings import PolicySettings


@pytest.fixture
def policy():
    return make_policy(PolicySettings(policy="he"))


def happened(policy, kind, at_s):
    policy.on_event(WorkflowEvent(kind, "w", at_s, agent="A"))


def forecast(remaining_calls):
    steps = np.full((3, 2), 0.5, dtype=np.float32)
    return Forecast("w", ("A",), steps, 0.0, "test", remaining_calls)


def test_the_present_call_and_those_still_to_come(policy):
    happened(policy, EventKind.INVOKE, 0.0)
    assert policy.calls_left("w") is None

    policy.on_forecast(forecast(6.5))

    assert policy.calls_left("w") == 7.5


@pytest.mark.parametrize("kind", [EventKind.INVOKE, EventKind.TERMINATE])
def test_it_goes_with_its_forecast(policy, kind):
    happened(policy, EventKind.INVOKE, 0.0)
    policy.on_forecast(forecast(6.5))

    happened(policy, kind, 1.0)

    assert policy.calls_left("w") is None


def test_a_forecast_that_does_not_look_so_far_says_nothing(policy):
    happened(policy, EventKind.INVOKE, 0.0)
    policy.on_forecast(forecast(6.5))
    policy.on_forecast(forecast(None))

    assert policy.calls_left("w") is None
