import random

import pytest

from pbkv.errors import SettingsError
from pbkv.policy.access_model import (
    ACCESS_MODELS,
    DirectAccess,
    InheritedAccess,
    LearnedAccess,
    make_access_model,
)
from pbkv.policy.node import CacheNode


def test_direct_is_the_indicator_of_who_accessed():
    assert DirectAccess().touch("app", frozenset("AB")) == {"A": 1.0, "B": 1.0}


def test_inherit_adds_the_heirs_of_who_accessed():
    model = InheritedAccess({"Coder": ["Tester", "Reviewer"], "Tester": ["Judge"]})

    assert model.touch("app", frozenset({"Coder"})) == {
        "Coder": 1.0,
        "Tester": 1.0,
        "Reviewer": 1.0,
    }
    assert model.touch("app", frozenset({"Judge"})) == {"Judge": 1.0}


def test_models_are_made_by_name_and_an_unknown_name_lists_them():
    assert [make_access_model(name, {}).name for name in ACCESS_MODELS] == list(ACCESS_MODELS)
    with pytest.raises(SettingsError, match="direct, inherit, learned"):
        make_access_model("oracle", {})


def calls(model, application, agent, fraction_of, count, draw=None):
    """``count`` calls of ``agent``; of what each source touched it touches ``fraction_of[source]``,
    in expectation if ``draw`` is given and exactly if not."""
    for _ in range(count):
        known, touched = [], set()
        for number, (source, fraction) in enumerate(fraction_of.items()):
            share = fraction if draw is None else float(draw.random() < fraction)
            read = CacheNode(2 * number, None, round(1000 * share))
            rest = CacheNode(2 * number + 1, None, 1000 - round(1000 * share))
            known += [(read, frozenset({source})), (rest, frozenset({source}))]
            touched.add(read.node_id)
        model.observe(application, agent, known, touched)


def test_before_any_call_the_learned_model_is_direct():
    assert LearnedAccess().touch("app", frozenset("AB")) == {"A": 1.0, "B": 1.0}


def test_learned_converges_to_the_true_fractions():
    """What is left is the pull of the prior: 2 calls' worth against at most 200."""
    model = LearnedAccess(smoothing=2.0, decay=0.995)
    truth = {"A": 0.8, "B": 0.25, "C": 0.0}
    calls(model, "app", "B", truth, count=1500)

    for source, fraction in truth.items():
        assert model.estimate("app", source, "B") == pytest.approx(fraction, abs=2.0 / 200)


@pytest.mark.parametrize("seed", range(3))
def test_learned_converges_to_the_mean_of_what_varies(seed):
    """All or nothing at random: 400 effective calls have a standard error of .025 at most."""
    model = LearnedAccess(smoothing=2.0, decay=0.9975)
    truth = {"A": 0.7, "C": 0.2}
    calls(model, "app", "B", truth, count=4000, draw=random.Random(seed))

    for source, fraction in truth.items():
        assert model.estimate("app", source, "B") == pytest.approx(fraction, abs=4 * 0.025)


def test_learned_follows_an_application_that_changes():
    model = LearnedAccess()
    calls(model, "app", "B", {"A": 1.0}, count=500)
    calls(model, "app", "B", {"A": 0.0}, count=1000)

    assert model.estimate("app", "A", "B") < 0.02


def test_applications_are_learned_apart():
    model = LearnedAccess()
    calls(model, "one", "B", {"A": 1.0}, count=200)

    assert model.estimate("one", "A", "B") > 0.98
    assert model.touch("two", frozenset("A")) == {"A": 1.0}


def test_a_node_of_several_agents_is_missed_only_by_way_of_each_of_them():
    model = LearnedAccess()
    calls(model, "app", "D", {"A": 0.5, "B": 0.5}, count=1500)
    by_one = model.estimate("app", "A", "D")

    touch = model.touch("app", frozenset("AB"))

    assert touch["D"] == pytest.approx(1 - (1 - by_one) * (1 - model.estimate("app", "B", "D")))
    assert touch["D"] > by_one
    assert touch["A"] == 1.0


def test_a_call_that_finds_nothing_of_its_workflow_teaches_nothing():
    model = LearnedAccess()
    model.observe("app", "B", [], set())

    assert model.estimate("app", "A", "B") == 0.0
    assert model.estimate("app", "B", "B") == 1.0
