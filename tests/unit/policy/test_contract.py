"""What every eviction policy must do, run over all of them, against a model that recomputes."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from pbkv.errors import UnknownPolicy
from pbkv.events import EventKind, WorkflowEvent
from pbkv.forecast import Forecast
from pbkv.invocation import Invocation
from pbkv.policy import (
    POLICIES,
    CacheNode,
    EvictionReason,
    PolicySettings,
    PrefetchBudget,
    Tier,
    make_policy,
)
from pbkv.policy.he import TieRule
from pbkv.policy.tag import UNTAGGED

WORKFLOWS = ("w0", "w1", "w2", "w3")
AGENTS = ("A", "B", "C")


def test_an_unknown_policy_lists_the_choices():
    with pytest.raises(UnknownPolicy, match="lru, kvflow, lae, he, pbkv"):
        make_policy(PolicySettings(policy="belady"))


class PolicyMachine(RuleBasedStateMachine):
    """Random trees, workflows and evictions; the host's duties are done as the engine does them."""

    policy_name = ""

    @initialize(tie_rule=st.sampled_from(TieRule))
    def start(self, tie_rule):
        self.policy = make_policy(
            PolicySettings(
                policy=self.policy_name,
                tie_rule=tie_rule.value,
                max_workflows=3,
                max_retired_workflows=2,
                agent_graph='{"A": ["B"], "B": ["C", "A"]}',
            )
        )
        self.nodes = {}
        self.tiers = {}
        # What the policy should know of every node: its tags, how many it forgot, who waits.
        self.tags = defaultdict(lambda: defaultdict(frozenset))
        self.forgotten = Counter()
        self.waiting = Counter()
        self.queued = []
        self.next_id = 1
        self.clock = 0.0
        self.seq = 0

    def children(self, node):
        return [other for other in self.nodes.values() if other.parent_id == node.node_id]

    def refresh_candidates(self):
        for node in self.nodes.values():
            on = self.tiers[node.node_id]
            below = self.children(node)
            device_leaf = (
                Tier.DEVICE in on
                and not node.locked
                and not any(Tier.DEVICE in self.tiers[child.node_id] for child in below)
            )
            host_leaf = on == {Tier.HOST} and not node.locked and not below
            for tier, leaf in ((Tier.DEVICE, device_leaf), (Tier.HOST, host_leaf)):
                (self.policy.add_candidate if leaf else self.policy.drop_candidate)(node, tier)

    def path(self, node):
        while node is not None:
            yield node
            node = self.nodes.get(node.parent_id)

    def pick(self, number):
        return self.nodes[sorted(self.nodes)[number % len(self.nodes)]]

    @rule(parent=st.integers(0, 99), tokens=st.integers(2, 50))
    def insert(self, parent, tokens):
        above = self.pick(parent).node_id if self.nodes and parent % 3 else None
        if above is not None and Tier.DEVICE not in self.tiers[above]:
            above = None
        node = CacheNode(self.next_id, above, tokens, self.clock)
        self.next_id += 1
        self.nodes[node.node_id] = node
        self.tiers[node.node_id] = {Tier.DEVICE}
        self.policy.on_store(node, Tier.DEVICE)
        self.refresh_candidates()

    @rule(
        number=st.integers(0, 99),
        workflow=st.sampled_from(WORKFLOWS),
        agent=st.sampled_from(AGENTS),
    )
    def invoke(self, number, workflow, agent):
        self.seq += 1
        self.clock += 1.0
        invocation = Invocation(workflow, agent, at_s=self.clock, seq=self.seq)
        self.policy.on_event(WorkflowEvent.invoke(invocation))
        if self.nodes:
            for node in self.path(self.pick(number)):
                node.last_access_s = self.clock
                self.policy.on_access(node, invocation)
                if self.policy.workflows.get(workflow) is not None:
                    self.tags[node.node_id][workflow] |= {agent}
                if not node.locked:
                    # A call locks what it reads, and an unlocked leaf is a new candidate.
                    node.locked = True
                    self.refresh_candidates()
                    node.locked = False
                    self.refresh_candidates()

    @rule(workflow=st.sampled_from(WORKFLOWS), age=st.integers(0, 3))
    def terminate(self, workflow, age):
        event = WorkflowEvent(EventKind.TERMINATE, workflow, self.clock, seq=max(0, self.seq - age))
        self.policy.on_event(event)

    @rule(silence=st.floats(0.0, 700.0))
    def pass_time(self, silence):
        self.clock += silence
        self.policy.expire(self.clock, lambda workflow_id: workflow_id == WORKFLOWS[0])

    @rule(number=st.integers(0, 99))
    def split(self, number):
        if not self.nodes or self.pick(number).num_tokens < 2:
            return
        child = self.pick(number)
        head = child.num_tokens // 2
        parent = CacheNode(self.next_id, child.parent_id, head, child.last_access_s)
        self.next_id += 1
        parent.locked = child.locked
        child.parent_id = parent.node_id
        child.num_tokens -= head
        self.nodes[parent.node_id] = parent
        self.tiers[parent.node_id] = set(self.tiers[child.node_id])
        self.policy.on_split(parent, child)
        self.tags[parent.node_id] |= self.tags[child.node_id]
        self.forgotten[parent.node_id] = self.forgotten[child.node_id]
        self.waiting[parent.node_id] = self.waiting[child.node_id]
        for path in self.queued:
            if child in path:
                path.append(parent)
        self.refresh_candidates()

    @rule(number=st.integers(0, 99))
    def queue(self, number):
        if self.nodes:
            path = list(self.path(self.pick(number)))
            self.queued.append(path)
            self.policy.on_queued(path)
            self.waiting.update(node.node_id for node in path)

    @rule(number=st.integers(0, 99))
    def dequeue(self, number):
        if self.queued:
            path = self.queued.pop(number % len(self.queued))
            self.policy.on_dequeued(path)
            self.waiting.subtract(node.node_id for node in path)

    @rule(number=st.integers(0, 99))
    def toggle_lock(self, number):
        if self.nodes:
            node = self.pick(number)
            node.locked = not node.locked
            self.refresh_candidates()

    @rule(number=st.integers(0, 99))
    def back_up(self, number):
        if self.nodes:
            node = self.pick(number)
            self.tiers[node.node_id].add(Tier.HOST)
            self.policy.on_store(node, Tier.HOST)
            self.refresh_candidates()

    @rule(number=st.integers(0, 99))
    def load_back(self, number):
        if self.nodes:
            for node in self.path(self.pick(number)):
                self.tiers[node.node_id].add(Tier.DEVICE)
                self.policy.on_store(node, Tier.DEVICE)
            self.refresh_candidates()

    @rule(tokens=st.integers(1, 200), tier=st.sampled_from(Tier))
    def evict(self, tokens, tier):
        freed = 0
        for node in self.policy.next_victims(tokens, tier):
            expected = self.expected_order(tier)[0]
            assert node is expected
            assert isinstance(self.policy.explain(node), EvictionReason)
            freed += node.num_tokens
            self.policy.on_release(node, tier)
            self.tiers[node.node_id].discard(tier)
            if not self.tiers[node.node_id]:
                # A node whose children live on the other tier keeps its place in a real tree;
                # here it goes with them.
                for gone in self.subtree(node):
                    self.policy.on_remove(gone)
                    del self.nodes[gone.node_id], self.tiers[gone.node_id]
                    self.tags.pop(gone.node_id, None)
                    for path in self.queued:
                        if gone in path:
                            path.remove(gone)
            self.refresh_candidates()
        assert freed >= tokens or not self.policy.candidates(tier)

    def subtree(self, node):
        below = [deep for child in self.children(node) for deep in self.subtree(child)]
        return [*below, node]

    @rule(
        workflow=st.sampled_from(WORKFLOWS),
        weights=st.lists(st.integers(1, 9), min_size=12, max_size=12),
    )
    def forecast(self, workflow, weights):
        table = np.array(weights, dtype=np.float32).reshape(3, len(AGENTS) + 1)
        table /= table.sum(axis=1, keepdims=True)
        self.policy.on_forecast(Forecast(workflow, AGENTS, table, self.clock, "test"))

    def expected_order(self, tier):
        candidates = [n for n in self.nodes.values() if self.is_candidate(n, tier)]
        return sorted(candidates, key=self.policy.priority)

    def is_candidate(self, node, tier):
        return node in self.policy._index[tier]

    @invariant()
    def every_node_has_the_tags_that_it_was_given(self):
        if not hasattr(self, "policy"):
            return
        for node_id, accesses in self.tags.items():
            for workflow in [w for w in accesses if self.policy.workflows.get(w) is None]:
                del accesses[workflow]
                self.forgotten[node_id] += 1
        for node in self.nodes.values():
            assert node.accesses == self.tags[node.node_id]
            assert node.forgotten_workflows == self.forgotten[node.node_id]
            assert node.waiting == self.waiting[node.node_id]

    @invariant()
    def tags_know_their_nodes(self):
        if not hasattr(self, "policy"):
            return
        table = self.policy._tags
        nodes_of = Counter(node.tag for node in self.nodes.values())
        del nodes_of[UNTAGGED]
        assert all(tag.num_nodes == number for tag, number in nodes_of.items())
        assert set(table._shared.values()) == {tag for tag in nodes_of if tag.key is not None}
        for workflow in WORKFLOWS:
            assert set(table.of(workflow)) == {tag for tag in nodes_of if workflow in tag.accesses}
        assert (UNTAGGED.accesses, UNTAGGED.waiting, UNTAGGED.num_nodes) == ({}, 0, 0)

    @invariant()
    def bookkeeping_matches_what_the_nodes_say(self):
        if not hasattr(self, "policy"):
            return
        policy = self.policy
        for node in self.nodes.values():
            active = [w for w in node.accesses if policy.workflows.is_active(w)]
            assert node.active_workflows == len(active)
            assert node.num_workflows == len(node.accesses) + node.forgotten_workflows
        for workflow in WORKFLOWS:
            tagged = {n.node_id for n in self.nodes.values() if workflow in n.accesses}
            assert {n.node_id for n in policy.nodes_of(workflow)} == tagged
        for tier in Tier:
            stored = [n for n in self.nodes.values() if tier in self.tiers[n.node_id]]
            assert policy.stored_tokens(tier) == sum(n.num_tokens for n in stored)
            assert policy.retired_tokens(tier) == sum(n.num_tokens for n in stored if n.retired)
            expected = self.expected_order(tier)
            assert policy.candidates(tier) == expected
            assert policy._index[tier].peek() is (expected[0] if expected else None)


class ScoredMachine(PolicyMachine):
    """As above, and the score kept by change is the one computed from scratch."""

    @invariant()
    def scores_are_what_forecasts_and_tags_say(self):
        if not hasattr(self, "policy"):
            return
        for node in self.nodes.values():
            expected = sum(
                gain.of(agents)
                for workflow, agents in node.accesses.items()
                if (gain := self.policy._gain.get(workflow)) is not None
            )
            assert abs(node.score - expected) < 1e-9
        assert all(self.policy.workflows.is_active(w) for w in self.policy._gain)


class PrefetchingMachine(ScoredMachine):
    """As above, and prefetch plans keep to their budget, their order and the tree."""

    @invariant()
    def candidates_for_prefetch_are_the_nodes_on_the_host_only(self):
        if not hasattr(self, "policy"):
            return
        on_host = [n for n in self.nodes.values() if self.tiers[n.node_id] == {Tier.HOST}]
        by_value = sorted(on_host, key=lambda n: (-self.policy.value(n), n.node_id))
        assert self.policy.prefetcher.candidates.ordered() == by_value

    @rule(free=st.integers(0, 80), retired=st.integers(0, 40), bandwidth=st.integers(0, 100))
    def plan(self, free, retired, bandwidth):
        budget = PrefetchBudget(free, retired, bandwidth)
        assert budget.tokens == min(free + retired, bandwidth)
        before = self.policy.prefetcher.candidates.ordered()
        planned = self.policy.prefetcher.plan(budget)
        assert sum(node.num_tokens for node in planned) <= budget.tokens
        assert len({node.node_id for node in planned}) == len(planned)
        loaded = set()
        for node in planned:
            assert self.tiers[node.node_id] == {Tier.HOST}
            above = node.parent_id
            on_device = above is None or Tier.DEVICE in self.tiers[above]
            assert on_device or above in loaded, "parents come before children"
            loaded.add(node.node_id)
        assert self.policy.prefetcher.candidates.ordered() == before, "a plan changes nothing"


CONTRACT = {
    "lru": PolicyMachine,
    "kvflow": PrefetchingMachine,
    "lae": PolicyMachine,
    "he": ScoredMachine,
    "pbkv": PrefetchingMachine,
    "pbkv-aggressive": PrefetchingMachine,
}


def test_every_policy_runs_the_contract():
    assert CONTRACT.keys() == POLICIES.keys()


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_contract(name):
    machine = type("Machine", (CONTRACT[name],), {"policy_name": name})
    run_state_machine_as_test(
        machine,
        settings=hypothesis_settings(max_examples=50, stateful_step_count=40, deadline=None),
    )
