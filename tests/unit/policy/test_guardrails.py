"""The deterministic bounds on what a forecast can do: retired first, and none means ``lae``."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbkv.events import EventKind, WorkflowEvent
from pbkv.forecast import Forecast
from pbkv.invocation import Invocation
from pbkv.policy import CacheNode, Tier, make_policy
from pbkv.policy.access_model import ACCESS_MODELS
from pbkv.policy.he import TieRule
from pbkv.settings import PolicySettings

WORKFLOWS = ("w0", "w1", "w2", "w3")
AGENTS = ("A", "B", "C")
HEIRS = '{"A": ["B"], "B": ["C"]}'
NODES = 8

numbers = st.integers(0, NODES - 1)
workflows = st.sampled_from(WORKFLOWS)
rows = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)
history = st.lists(
    st.one_of(
        st.tuples(st.just("call"), workflows, st.sampled_from(AGENTS), st.sets(numbers)),
        st.tuples(st.just("terminate"), workflows, st.integers(0, 2)),
        st.tuples(st.just("silence"), st.sampled_from((1.0, 700.0))),
        st.tuples(st.just("evict"), st.sampled_from(tuple(Tier)), st.integers(1, 60)),
        st.tuples(st.just("forecast"), workflows, st.lists(rows, min_size=3, max_size=3)),
    ),
    max_size=40,
)


class World:
    """One policy over a fixed set of leaves; an evicted leaf comes back empty of tags."""

    def __init__(self, forecasts, **choices):
        self.policy = make_policy(
            PolicySettings(max_workflows=3, max_retired_workflows=2, inherits=HEIRS, **choices)
        )
        self.forecasts = forecasts
        self.nodes = {}
        self.now_s = 0.0
        self.seq = 0
        self.next_id = 0
        self.log = []
        for number in range(NODES):
            self.place(number)

    def place(self, number):
        node = CacheNode(self.next_id, None, 10 + number, last_access_s=self.now_s)
        self.next_id += 1
        self.nodes[number] = node
        for tier in Tier:
            self.policy.on_store(node, tier)
            self.policy.add_candidate(node, tier)

    def run(self, steps):
        for operation, *arguments in steps:
            self.now_s += 1.0
            getattr(self, operation)(*arguments)

    def call(self, workflow, agent, touched):
        self.seq += 1
        invocation = Invocation(workflow, agent, at_s=self.now_s, seq=self.seq)
        self.policy.on_event(WorkflowEvent.invoke(invocation))
        path = [self.nodes[number] for number in sorted(touched)]
        for node in path:
            node.last_access_s = self.now_s
            self.policy.on_access(node, invocation)
        self.policy.on_call_finished(path, invocation)

    def terminate(self, workflow, age):
        seq = max(0, self.seq - age)
        self.policy.on_event(WorkflowEvent(EventKind.TERMINATE, workflow, self.now_s, seq=seq))

    def silence(self, seconds):
        self.now_s += seconds
        self.policy.expire(self.now_s, lambda workflow_id: False)

    def forecast(self, workflow, table):
        if self.forecasts:
            probabilities = np.array([np.array(row) / sum(row) for row in table], dtype=np.float32)
            self.policy.on_forecast(Forecast(workflow, AGENTS, probabilities, self.now_s, "test"))

    def evict(self, tier, num_tokens):
        number_of = {node.node_id: number for number, node in self.nodes.items()}
        for node in self.policy.next_victims(num_tokens, tier):
            if not node.retired:
                assert not any(other.retired for other in self.policy.candidates(tier))
            self.log.append((tier, node.node_id, self.policy.explain(node)))
            self.policy.on_remove(node)
            self.place(number_of[node.node_id])
            number_of = {n.node_id: number for number, n in self.nodes.items()}


@pytest.mark.parametrize("policy", ["lae", "he", "pbkv"])
@settings(max_examples=150, deadline=None)
@given(history, st.sampled_from(tuple(Tier)))
def test_a_retired_node_never_outlives_an_active_one_whatever_forecasts_say(policy, steps, tier):
    world = World(forecasts=True, policy=policy)
    world.run(steps)

    order = [node.retired for node in world.policy.candidates(tier)]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("access_model", ACCESS_MODELS)
@pytest.mark.parametrize("tie_rule", list(TieRule))
@settings(max_examples=60, deadline=None)
@given(history)
def test_without_forecasts_he_is_exactly_lae(tie_rule, access_model, steps):
    choices = {"tie_rule": tie_rule.value, "access_model": access_model}
    he, lae = World(False, policy="he", **choices), World(False, policy="lae", **choices)
    he.run(steps)
    lae.run(steps)

    assert he.log == lae.log
    for tier in Tier:
        assert [n.node_id for n in he.policy.candidates(tier)] == [
            n.node_id for n in lae.policy.candidates(tier)
        ]


@settings(max_examples=150, deadline=None)
@given(history)
def test_once_every_forecast_is_used_up_he_is_lae_again(steps):
    """A call drops its workflow's forecast: nothing of it may stay in the order."""
    worlds = [World(True, policy=policy) for policy in ("he", "lae")]
    # Evictions under a forecast may differ, and with them the nodes that are left.
    quiet = [step for step in steps if step[0] != "evict"]
    for world in worlds:
        world.run(quiet)
        for workflow in WORKFLOWS[:3]:
            world.call(workflow, "A", set())

    he, lae = worlds
    for tier in Tier:
        assert [n.node_id for n in he.policy.candidates(tier)] == [
            n.node_id for n in lae.policy.candidates(tier)
        ]
