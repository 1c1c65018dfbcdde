from __future__ import annotations

import random

import pytest

from pbkv.events import EventKind, WorkflowEvent
from pbkv.invocation import Invocation
from pbkv.policy import Tier
from pbkv.sim.integrity import tree_problems
from pbkv.sim.node import TreeNode
from pbkv.sim.pages import PageChain
from pbkv.sim.tree import SimulatedTree
from tests.unit.sim.scenes import PAGE, tree


def _prompt(*segments: tuple[int, int]) -> list[int]:
    chain = PageChain(PAGE)
    for segment, tokens in segments:
        chain.extend(segment, tokens)
    return chain.ids


def _store(cache: SimulatedTree, ids: list[int]) -> None:
    """As an engine does: lock what is there, take private pages for the rest, hand them over."""
    match = cache.match(ids, len(ids))
    cache.settle(match)
    cache.lock(match.device_end)
    needed = (len(ids) - match.device_pages) * PAGE
    assert cache.make_room(needed)
    cache.private += needed
    end = cache.insert(ids, len(ids), match.device_end)
    cache.private -= needed
    cache.touch(end)
    cache.unlock(match.device_end)


def test_a_prompt_is_found_as_far_as_it_agrees() -> None:
    cache = tree()
    _store(cache, _prompt((1, 20), (2, 20)))

    match = cache.match(_prompt((1, 20), (3, 20)), 10)
    assert (match.device_pages, match.host_pages) == (5, 0)
    assert cache.num_nodes == 1

    cache.settle(match)
    assert cache.num_nodes == 2
    assert match.end.end == 5
    assert tree_problems(cache) == []


@pytest.mark.parametrize(("unit", "found", "evicted"), [("node", 0, 40), ("page", 8, 8)])
def test_a_victim_is_cut_to_what_is_needed(unit: str, found: int, evicted: int) -> None:
    cache = tree(device_tokens=60, unit=unit)
    _store(cache, _prompt((1, 40)))
    _store(cache, _prompt((2, 20)))

    assert cache.make_room(8)

    assert cache.match(_prompt((1, 40)), 10).device_pages == found
    assert cache.match(_prompt((2, 20)), 5).device_pages == 5
    assert sum(cache.evicted.values()) == evicted
    assert tree_problems(cache) == []


def test_leaves_go_first_the_oldest_of_them() -> None:
    cache = tree(device_tokens=60)
    _store(cache, _prompt((1, 20), (2, 20)))
    _store(cache, _prompt((1, 20), (3, 20)))
    _store(cache, _prompt((4, 12)))

    assert cache.match(_prompt((1, 20), (2, 20)), 10).device_pages == 5
    assert cache.match(_prompt((1, 20), (3, 20)), 10).device_pages == 10
    assert cache.evicted["recency"] == 20


def test_what_is_locked_stays() -> None:
    cache = tree(device_tokens=40)
    ids = _prompt((1, 40))
    _store(cache, ids)
    cache.lock(cache.match(ids, 10).end)

    assert not cache.make_room(4)
    assert cache.evictable == 0
    assert cache.match(ids, 10).device_pages == 10


def test_an_evicted_node_waits_on_the_host_and_comes_back() -> None:
    cache = tree(device_tokens=40, host_tokens=80)
    ids = _prompt((1, 40))
    _store(cache, ids)
    assert cache.make_room(40)

    match = cache.match(ids, 10)
    assert (match.device_pages, match.host_pages) == (0, 10)
    assert cache.load_back(match.end) == 40
    assert cache.match(ids, 10).device_pages == 10
    assert tree_problems(cache) == []


def test_the_host_drops_its_oldest_leaf_for_a_new_copy() -> None:
    cache = tree(device_tokens=40, host_tokens=40)
    old, new = _prompt((1, 40)), _prompt((2, 40))
    _store(cache, old)
    _store(cache, new)

    assert cache.match(old, 10).matched_pages == 0
    assert cache.evicted["host"] == 40
    assert cache.stored_host == 40


def test_a_match_notices_that_it_is_outdated() -> None:
    cache = tree(device_tokens=80, host_tokens=80)
    ids = _prompt((1, 20), (2, 20))
    _store(cache, ids[:5])
    match = cache.match(ids, 10)
    assert not match.outdated()

    _store(cache, ids)
    assert match.outdated()

    whole = cache.match(ids, 10)
    cache.make_room(60)
    assert whole.outdated()


@pytest.mark.parametrize("policy", ["lru", "lae", "he", "pbkv"])
def test_any_order_of_operations_leaves_a_sound_tree(policy: str) -> None:
    rng = random.Random(f"tree/{policy}")
    cache = tree(policy, device_tokens=320, host_tokens=240)
    locked: list[TreeNode] = []
    for turn in range(1500):
        ids = _prompt(*((rng.randrange(4), rng.choice((4, 7, 12))) for _ in range(5)))
        workflow_id = f"w{rng.randrange(6)}"
        match rng.randrange(6):
            case 0 | 1:
                invocation = Invocation(workflow_id, rng.choice("AB"), at_s=float(turn))
                cache.policy.on_event(WorkflowEvent.invoke(invocation))
                found = cache.match(ids, len(ids))
                room = (len(ids) - found.device_pages) * PAGE
                if room <= cache.free_tokens + cache.evictable - 80:
                    _store(cache, ids)
                    end = cache.match(ids, len(ids)).end
                    cache.policy.on_path(cache.path(end), invocation)
            case 2:
                cache.make_room(rng.randrange(0, 60))
            case 3:
                found = cache.match(ids, len(ids))
                if len(locked) < 3 and found.device_end is not cache.root:
                    cache.settle(found)
                    cache.lock(found.device_end)
                    locked.append(found.device_end)
            case 4:
                if locked:
                    cache.unlock(locked.pop())
            case 5:
                cache.policy.on_event(WorkflowEvent(EventKind.TERMINATE, workflow_id, float(turn)))
        assert tree_problems(cache) == []
        _assert_match_is_what_is_stored(cache, ids)
    assert cache.evicted["host"] > 0
    assert sum(cache.evicted.values()) > 5000


def _assert_match_is_what_is_stored(cache: SimulatedTree, ids: list[int]) -> None:
    """The walk finds what a look at every node finds."""
    device = {page for node in cache.nodes() if node.on_device for page in node.ids}
    known = {page for node in cache.nodes() for page in node.ids}
    found = cache.match(ids, len(ids))
    assert found.device_pages == sum(page in device for page in ids)
    assert found.matched_pages == sum(page in known for page in ids)
    assert cache.policy.stored_tokens(Tier.DEVICE) == len(device) * PAGE
