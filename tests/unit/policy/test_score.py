import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbkv.forecast import Forecast
from pbkv.policy.access_model import DirectAccess, LearnedAccess
from pbkv.policy.node import CacheNode
from pbkv.policy.score import WorkflowGain, agent_weights, application_of, noisy, survival

AGENTS = ("A", "B")


def forecast(*rows):
    return Forecast("w", AGENTS, np.array(rows, dtype=np.float32), 0.0, "test")


def test_survival_is_the_chance_not_to_have_ended_before_the_step():
    table = forecast((0.5, 0.25, 0.25), (0.25, 0.25, 0.5), (0.0, 0.0, 1.0)).step_probabilities

    assert survival(table).tolist() == [1.0, 0.75, 0.375]


def test_weights_worked_out_by_hand():
    """gamma .5: A gets .5 + .5*.75*.25, B gets .25 + .5*.75*.25."""
    weights = agent_weights(forecast((0.5, 0.25, 0.25), (0.25, 0.25, 0.5)), gamma=0.5, steps=3)

    assert weights == {"A": 0.59375, "B": 0.34375}


def test_no_step_beyond_the_horizon_counts():
    rows = ((0.5, 0.25, 0.25), (0.25, 0.25, 0.5))

    assert agent_weights(forecast(*rows), 0.7, steps=1) == {"A": 0.5, "B": 0.25}


def test_nothing_after_a_certain_end_counts():
    certain = forecast((0.0, 0.0, 1.0), (1.0, 0.0, 0.0))

    assert agent_weights(certain, 0.7, steps=3) == {"A": 0.0, "B": 0.0}


tables = st.lists(
    st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), min_size=1, max_size=4
).map(lambda rows: np.array([np.array(row) / sum(row) for row in rows], dtype=np.float32))


@given(tables, st.floats(0.0, 1.0))
def test_noise_is_equation_5_and_stays_a_distribution(table, noise):
    mixed = noisy(table, noise)

    assert mixed.dtype == np.float32
    assert mixed == pytest.approx((1 - noise) * table + noise / 3, abs=1e-6)
    assert mixed.sum(axis=1) == pytest.approx(1.0, abs=1e-5)


@given(tables)
def test_no_noise_changes_nothing_and_full_noise_forgets_everything(table):
    assert np.array_equal(noisy(table, 0.0), table)
    assert np.array_equal(noisy(table, 1.0), np.full_like(table, 1 / 3))


def test_what_was_added_to_a_node_can_be_taken_off_again_while_the_model_learns():
    model = LearnedAccess()
    gain = WorkflowGain("", {"A": 0.5, "B": 0.25}, model)
    before = gain.of(frozenset("A"))
    for _ in range(20):
        model.observe("", "B", [(CacheNode(1, None, 10), frozenset("A"))], {1})

    assert gain.of(frozenset("A")) == before == 0.5
    assert WorkflowGain("", {"A": 0.5, "B": 0.25}, model).of(frozenset("A")) > before


def test_an_agent_that_the_forecast_does_not_name_adds_nothing():
    gain = WorkflowGain("", {"A": 0.5}, DirectAccess())

    assert gain.of(frozenset({"A", "Z"})) == 0.5


@pytest.mark.parametrize(
    ("workflow_id", "application"), [("team:w1", "team"), ("a:b:c", "a"), ("w1", ""), ("", "")]
)
def test_the_application_of_a_workflow_is_its_tenant(workflow_id, application):
    assert application_of(workflow_id) == application
