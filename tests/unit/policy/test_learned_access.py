"""The learned access model keeps answers until they change; they are those of its definition."""

from __future__ import annotations

import random

import pytest

from pbkv.policy import CacheNode
from pbkv.policy.access_model import LearnedAccess

AGENTS = tuple("abcde")


def _by_definition(model: LearnedAccess, agents: frozenset[str]) -> dict[str, float]:
    """1 - prod(1 - q_ij), without anything kept."""
    touch = {}
    for agent in AGENTS:
        missed = 1.0
        for source in sorted(agents):
            missed *= 1.0 - model.estimate("app", source, agent)
        touch[agent] = 1.0 - missed
    return touch


def test_kept_answers_are_those_of_the_definition() -> None:
    rng = random.Random(7)
    model = LearnedAccess()
    nodes = [CacheNode(n, None) for n in range(12)]
    for node in nodes:
        node.num_tokens = rng.randrange(16, 200)
    sets = [frozenset(rng.sample(AGENTS, rng.randrange(1, 5))) for _ in range(6)]
    for _ in range(300):
        if rng.random() < 0.3:
            known = [(node, rng.choice(sets)) for node in rng.sample(nodes, 6)]
            touched = {node.node_id for node, _ in known if rng.random() < 0.5}
            model.observe("app", rng.choice(AGENTS[:4]), known, touched)
        agents = rng.choice(sets)
        answer = model.touch("app", agents)

        # Bit for bit: a score must not depend on when it was asked for.
        assert {a: answer.get(a, 0.0) for a in AGENTS} == _by_definition(model, agents)


def test_an_answer_that_was_given_does_not_change() -> None:
    model = LearnedAccess()
    node = CacheNode(1, None)
    node.num_tokens = 16
    model.observe("app", "a", [(node, frozenset("a"))], {1})
    before = model.touch("app", frozenset("a"))
    kept = dict(before)
    model.observe("app", "a", [(node, frozenset("a"))], set())

    assert before == kept
    assert model.touch("app", frozenset("a"))["a"] < before["a"]


@pytest.mark.parametrize("application", ["app", "other"])
def test_who_never_called_comes_back_to_its_own(application: str) -> None:
    model = LearnedAccess()
    node = CacheNode(1, None)
    node.num_tokens = 16
    model.observe("app", "a", [(node, frozenset("b"))], {1})

    assert model.touch(application, frozenset("z"))["z"] == 1.0
