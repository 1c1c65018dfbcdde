"""What must hold between the engine's tree and the policy after every step, recomputed afresh."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pbkv.policy import Tier
from pbkv.policy.tag import UNTAGGED
from tests.engine.tree_harness import Harness

_ROUNDING = 1e-9


def check(harness: Harness) -> None:
    """All of it. Raises AssertionError at the first thing that does not hold."""
    if not harness.cache.ongoing_load_back:
        # With a load in flight the engine's own list of nodes on both tiers lags behind, and its
        # check, made for an idle engine, takes that for a fault.
        harness.cache.sanity_check()
    nodes = harness.nodes()
    check_views(harness, nodes)
    check_candidates(harness)
    check_tags(harness, nodes)
    check_tokens(harness, nodes)
    check_scores(harness, nodes)
    check_prefetchable(harness, nodes)
    if not harness.running:
        check_nothing_leaked(harness)


def tiers_of(node: Any) -> set[Tier]:
    return {
        tier
        for tier, there in ((Tier.DEVICE, not node.evicted), (Tier.HOST, node.backuped))
        if there
    }


def check_views(harness: Harness, nodes: list[Any]) -> None:
    """One view per live node, of that very node, and on the tiers it is on."""
    views = harness.binding.views._views
    assert views.keys() == {node.id for node in nodes}
    for node in nodes:
        view = views[node.id]
        assert view.tree_node is node
        assert view.node_id == node.id and view.num_tokens == len(node.key)
        assert harness.policy._tiers_of[node.id] == tiers_of(node)
    assert harness.policy._tiers_of.keys() == views.keys()


def check_candidates(harness: Harness) -> None:
    """The policy's candidates are the tree's evictable leaves, and the best is on top."""
    leaves = {
        Tier.DEVICE: harness.core.evictable_device_leaves,
        Tier.HOST: harness.core.evictable_host_leaves,
    }
    for tier, expected in leaves.items():
        ordered = harness.policy.candidates(tier)
        assert {node.node_id for node in ordered} == {node.id for node in expected}
        assert harness.policy._index[tier].peek() is (ordered[0] if ordered else None)


def check_tags(harness: Harness, nodes: list[Any]) -> None:
    """Both directions of the tags agree, they know how many nodes they have, and whatever tagged a
    node tagged its ancestors."""
    policy, views = harness.policy, harness.binding.views
    tagged: dict[str, set[int]] = {}
    for node in nodes:
        view = views.of(node)
        above = {} if node.parent is harness.core.root_node else views.of(node.parent).accesses
        for workflow, agents in view.accesses.items():
            tagged.setdefault(workflow, set()).add(node.id)
            if node.parent is not harness.core.root_node:
                assert agents <= above.get(workflow, frozenset())
            assert policy.workflows.get(workflow) is not None
        active = [w for w in view.accesses if policy.workflows.is_active(w)]
        assert view.active_workflows == len(active)
    assert tagged == {workflow: set(of) for workflow, of in policy._nodes_of.items()}
    shared = Counter(views.of(node).tag for node in nodes)
    assert all(tag.num_nodes == shared[tag] for tag in shared if tag is not UNTAGGED)
    assert all(tag in shared for of in policy._tags._of.values() for tag in of)


def check_tokens(harness: Harness, nodes: list[Any]) -> None:
    """Stored and retired tokens per tier, and the tree's own count of the device."""
    policy, views = harness.policy, harness.binding.views
    for tier in Tier:
        stored = [node for node in nodes if tier in tiers_of(node)]
        retired = [node for node in stored if views.of(node).retired]
        assert policy.stored_tokens(tier) == sum(len(node.key) for node in stored)
        assert policy.retired_tokens(tier) == sum(len(node.key) for node in retired)
    in_tree = harness.cache.evictable_size() + harness.cache.protected_size()
    assert policy.stored_tokens(Tier.DEVICE) == in_tree


def check_scores(harness: Harness, nodes: list[Any]) -> None:
    """Score(c) kept by change is the sum that the forecasts and the tags give."""
    gains = getattr(harness.policy, "_gain", None)
    if gains is None:
        return
    for node in nodes:
        view = harness.binding.views.of(node)
        expected = sum(
            gains[workflow].of(agents)
            for workflow, agents in view.accesses.items()
            if workflow in gains
        )
        assert abs(view.score - expected) < _ROUNDING
    assert all(harness.policy.workflows.is_active(workflow) for workflow in gains)


def check_prefetchable(harness: Harness, nodes: list[Any]) -> None:
    """A policy that prefetches chooses from exactly the nodes that are on the host only."""
    prefetcher = getattr(harness.policy, "prefetcher", None)
    if prefetcher is not None:
        host_only = {node.id for node in nodes if tiers_of(node) == {Tier.HOST}}
        ordered = prefetcher.candidates.ordered()
        assert {node.node_id for node in ordered} == host_only
        assert prefetcher.candidates.peek() is (ordered[0] if ordered else None)


def check_nothing_leaked(harness: Harness) -> None:
    """With no request running every slot is free or in the tree."""
    free = harness.local.allocator.available_size()
    assert free + harness.policy.stored_tokens(Tier.DEVICE) == harness.kv_tokens
    assert harness.local.request_pool.available_size() == harness.local.request_pool.size


def check_empty(harness: Harness) -> None:
    """After a reset nothing is left of any node, on either side."""
    policy = harness.policy
    check(harness)
    assert not harness.nodes() and not len(harness.binding.views)
    assert not policy._nodes_of and not policy._tiers_of
    assert all(not policy.candidates(tier) for tier in Tier)
    assert all(not policy.stored_tokens(tier) for tier in Tier)
    assert harness.local.allocator.available_size() == harness.kv_tokens
    if harness.host_ratio:
        host = harness.cache.cache_controller.mem_pool_host
        assert host.available_size() == host.size
