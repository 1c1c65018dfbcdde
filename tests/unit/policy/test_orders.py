"""Golden orders: small states whose eviction order is worked out by hand."""

import pytest

from pbkv.events import EventKind, WorkflowEvent
from pbkv.invocation import Invocation
from pbkv.policy import CacheNode, EvictionReason, PolicySettings, Tier, make_policy


def build(policy_name):
    """Four leaves of 10 tokens. ``shared`` was used by three workflows, all over by now."""
    policy = make_policy(PolicySettings(policy=policy_name))
    users = {"live": ["w1"], "gone": ["w2"], "shared": ["w2", "w3", "w4"], "fresh": ["w5"]}
    nodes = {
        name: CacheNode(node_id, None, 10, last_access_s=float(node_id))
        for node_id, name in enumerate(users, start=1)
    }
    for name, workflows in users.items():
        policy.on_store(nodes[name], Tier.DEVICE)
        policy.add_candidate(nodes[name], Tier.DEVICE)
        for workflow in workflows:
            invocation = Invocation(workflow, "A", at_s=0.0)
            policy.on_event(WorkflowEvent.invoke(invocation))
            policy.on_access(nodes[name], invocation)
    for workflow in ("w2", "w3", "w4"):
        policy.on_event(WorkflowEvent(EventKind.TERMINATE, workflow, 0.0))
    return policy, nodes


def evict_all(policy):
    order = []
    for node in policy.next_victims(10**9, Tier.DEVICE):
        order.append((node.node_id, policy.explain(node)))
        policy.on_release(node, Tier.DEVICE)
        policy.on_remove(node)
    return order


def test_lru_goes_by_recency_alone():
    policy, _ = build("lru")

    assert evict_all(policy) == [(i, EvictionReason.RECENCY) for i in (1, 2, 3, 4)]


def test_lae_drains_retired_first_least_shared_before_most_shared_then_recency():
    policy, nodes = build("lae")

    assert evict_all(policy) == [
        (nodes["gone"].node_id, EvictionReason.RETIRED),
        (nodes["shared"].node_id, EvictionReason.RETIRED),
        (nodes["live"].node_id, EvictionReason.RECENCY),
        (nodes["fresh"].node_id, EvictionReason.RECENCY),
    ]


@pytest.mark.parametrize("policy_name", ["lru", "lae"])
def test_without_any_workflow_the_order_is_recency(policy_name):
    policy = make_policy(PolicySettings(policy=policy_name))
    for node_id, last_access_s in ((1, 5.0), (2, 1.0), (3, 3.0)):
        policy.add_candidate(CacheNode(node_id, None, 4, last_access_s), Tier.DEVICE)

    assert [n.node_id for n in policy.candidates(Tier.DEVICE)] == [2, 3, 1]


def test_a_split_node_keeps_its_tags_on_both_halves():
    policy, nodes = build("lae")
    child = nodes["live"]
    child.num_tokens = 6
    parent = CacheNode(99, None, 4, last_access_s=child.last_access_s)
    policy.on_split(parent, child)
    child.parent_id = parent.node_id

    assert parent.accesses == child.accesses == {"w1": frozenset({"A"})}
    assert not parent.retired
    policy.on_event(WorkflowEvent(EventKind.TERMINATE, "w1", 0.0))
    assert parent.retired and child.retired
    assert policy.retired_tokens(Tier.DEVICE) == 30


def test_a_node_that_cannot_be_evicted_is_passed_over_once_and_comes_back():
    policy, nodes = build("lru")
    seen = []
    for node in policy.next_victims(10, Tier.DEVICE):
        seen.append(node.node_id)
        if node is not nodes["live"]:
            policy.on_remove(node)

    assert seen == [1, 2]
    assert policy.candidates(Tier.DEVICE)[0] is nodes["live"]
