from __future__ import annotations

import pytest

from pbkv.errors import SettingsError
from pbkv.invocation import Invocation
from pbkv.settings import PolicySettings
from pbkv.sim.pages import PageChain
from pbkv.sim.request import SimRequest
from pbkv.sim.tree import SimulatedTree
from pbkv.sim.waiting import MATCH_LIMIT, WaitingQueue
from tests.unit.sim.scenes import PAGE, tree


def _request(name: str, arrival: int, *segments: tuple[int, int]) -> SimRequest:
    chain = PageChain(PAGE)
    for segment, tokens in segments:
        chain.extend(segment, tokens)
    return SimRequest(
        invocation=Invocation(name, "A", at_s=float(arrival)),
        ids=chain.ids,
        prompt_tokens=chain.num_tokens,
        output_tokens=1,
        max_new_tokens=1,
        arrival=arrival,
        arrived_s=float(arrival),
    )


def _stored(cache: SimulatedTree, *segments: tuple[int, int]) -> None:
    request = _request("stored", 0, *segments)
    cache.private += len(request.ids) * PAGE
    end = cache.insert(request.ids, len(request.ids), cache.root)
    cache.private -= len(request.ids) * PAGE
    cache.touch(end)


def _queue(cache: SimulatedTree, order: str) -> WaitingQueue:
    return WaitingQueue(cache, cache.policy, order, PolicySettings())


def _names(queue: WaitingQueue) -> list[str]:
    return [request.workflow_id for request in queue.requests]


def test_fcfs_keeps_the_order_of_arrival() -> None:
    cache = tree()
    _stored(cache, (2, 80))
    queue = _queue(cache, "fcfs")
    for name, segment in (("a", 1), ("b", 2), ("c", 3)):
        queue.add(_request(name, len(queue), (segment, 80)))
    queue.order(0.0, 0)

    assert _names(queue) == ["a", "b", "c"]


def test_lpm_takes_the_longest_prefix_first() -> None:
    cache = tree()
    _stored(cache, (1, 40))
    _stored(cache, (2, 80))
    queue = _queue(cache, "lpm")
    queue.add(_request("none", 0, (3, 90)))
    queue.add(_request("short", 1, (1, 90)))
    queue.add(_request("long", 2, (2, 90)))
    queue.order(0.0, 0)

    assert _names(queue) == ["long", "short", "none"]


def test_lpm_lets_one_of_equal_beginnings_go_ahead() -> None:
    cache = tree()
    queue = _queue(cache, "lpm")
    queue.add(_request("first", 0, (1, 60), (10, 20)))
    queue.add(_request("twin", 1, (1, 60), (11, 20)))
    queue.add(_request("other", 2, (2, 60)))
    queue.order(0.0, 0)

    assert _names(queue) == ["first", "other", "twin"]


def test_lpm_gives_up_on_a_long_queue() -> None:
    cache = tree()
    _stored(cache, (1, 80))
    queue = _queue(cache, "lpm")
    for number in range(MATCH_LIMIT):
        queue.add(_request(f"n{number}", number, (100 + number, 40)))
    queue.add(_request("cached", MATCH_LIMIT, (1, 90)))
    queue.order(0.0, 0)

    assert _names(queue)[-1] == "cached"


def test_shortest_prefill_first_counts_what_is_not_cached() -> None:
    cache = tree()
    _stored(cache, (1, 80))
    queue = _queue(cache, "shortest-prefill-first")
    queue.add(_request("new", 0, (2, 40)))
    queue.add(_request("cached", 1, (1, 80), (5, 20)))
    queue.order(0.0, 0)

    assert _names(queue) == ["cached", "new"]


def test_hrrn_lets_a_large_request_pass_when_it_has_waited() -> None:
    cache = tree()
    queue = _queue(cache, "hrrn")
    large, small = _request("large", 0, (1, 200)), _request("small", 1, (2, 40))
    large.processed_at_arrival, small.processed_at_arrival = 0, 1000
    queue.add(small)
    queue.add(large)
    queue.order(0.0, 1100)
    assert _names(queue) == ["large", "small"]

    queue.order(0.0, 2000)
    assert _names(queue) == ["small", "large"]


def test_waiting_requests_are_announced_to_a_policy_that_wants_it() -> None:
    cache = tree("he")
    _stored(cache, (1, 80))
    queue = _queue(cache, "fcfs")
    request = _request("w", 0, (1, 90))
    queue.add(request)
    node = cache.match(request.ids, 20).end
    assert node.waiting == 1

    queue.leave([request])
    assert node.waiting == 0
    assert len(queue) == 0


def test_an_unknown_order_lists_the_choices() -> None:
    with pytest.raises(SettingsError, match="shortest-prefill-first"):
        _queue(tree(), "lifo")
