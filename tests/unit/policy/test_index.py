"""The two-level order against a sort of all candidates, whatever happens to nodes and tags."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbkv.policy.index import EvictionIndex
from pbkv.policy.node import CacheNode
from pbkv.policy.tag import Tag

NODES, TAGS = 10, 4


def by_score(tag):
    return (round(tag.score, 9),)


def node(node_id, tag, last_access_s=0.0):
    node = CacheNode(node_id, last_access_s=last_access_s)
    node.tag = tag
    return node


def test_rank_goes_before_recency():
    low, high = Tag(), Tag()
    high.score = 1.0
    index = EvictionIndex(by_score)
    old, new = node(1, high, 1.0), node(2, low, 2.0)
    index.add(old)
    index.add(new)

    assert index.peek() is new
    assert index.ordered() == [new, old]


def test_equal_ranks_of_many_tags_are_one_order_by_recency():
    tags = [Tag() for _ in range(3)]
    index = EvictionIndex(by_score)
    nodes = [node(number, tags[number % 3], float(number)) for number in range(9)]
    for candidate in reversed(nodes):
        index.add(candidate)

    found = []
    while (victim := index.peek()) is not None:
        found.append(victim)
        index.discard(victim)
    assert found == nodes


def test_equal_recency_goes_by_node_id_across_tags():
    index = EvictionIndex(by_score)
    for node_id in (3, 1, 2):
        index.add(node(node_id, Tag()))

    assert [index.peek().node_id, *(n.node_id for n in index.ordered())] == [1, 1, 2, 3]


def test_a_tag_that_rises_or_falls_takes_all_its_nodes_along():
    first, second = Tag(), Tag()
    second.score = 1.0
    index = EvictionIndex(by_score)
    nodes = [node(number, (first, second)[number % 2], float(number)) for number in range(6)]
    for candidate in nodes:
        index.add(candidate)
    first.score = 2.0
    index.changed(first)

    assert [n.node_id for n in index.ordered()] == [1, 3, 5, 0, 2, 4]
    assert index.peek() is nodes[1]


def test_a_changed_tag_costs_one_entry_however_many_nodes_it_has():
    tag = Tag()
    index = EvictionIndex(by_score)
    for number in range(1_000):
        index.add(node(number, tag, float(number)))
    index.settle()
    entries = len(index._order._heap)
    tag.score = -1.0
    index.changed(tag)
    index.settle()

    assert len(index._order._heap) == entries + 1


numbers = st.integers(0, NODES - 1)
tags = st.integers(0, TAGS - 1)
operations = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("add", "discard")), numbers),
        # An access nobody reports, as by a look-up; reported, as by a call.
        st.tuples(st.sampled_from(("rise", "access")), numbers),
        st.tuples(st.just("fall"), numbers, st.integers(1, 9)),
        st.tuples(st.just("move"), numbers, tags),
        # Few scores, zero among them, so that tags tie and turn round.
        st.tuples(st.just("score"), tags, st.sampled_from((-1.0, 0.0, 0.0, 1.0, 2.0))),
        st.tuples(st.sampled_from(("settle", "pop", "look", "renew"))),
    ),
    max_size=100,
)


class World:
    """An index, and the plain facts that it is held against."""

    def __init__(self, newest):
        self.newest = newest
        self.clock = float(NODES)
        self.index = EvictionIndex(by_score, newest_first=self.is_turned if newest else None)
        self.tags = [Tag() for _ in range(TAGS)]
        self.nodes = [node(n, self.tags[n % TAGS], float(n)) for n in range(NODES)]
        self.members = set()

    def is_turned(self, tag):
        return tag.score > 0.0

    def expected(self):
        def place(member):
            turned = self.newest and self.is_turned(member.tag)
            recency = -member.last_access_s if turned else member.last_access_s
            return (member.tag.score, recency, member.node_id)

        return sorted((self.nodes[number] for number in self.members), key=place)

    def add(self, number):
        self.index.add(self.nodes[number])
        self.members.add(number)

    def discard(self, number):
        self.index.discard(self.nodes[number])
        self.members.discard(number)

    def rise(self, number):
        if not self.newest:
            self.clock += 1.0
            self.nodes[number].last_access_s = self.clock

    def access(self, number):
        self.clock += 1.0
        self.nodes[number].last_access_s = self.clock
        self.index.touched(self.nodes[number])

    def fall(self, number, amount):
        self.nodes[number].last_access_s -= amount
        self.index.touched(self.nodes[number])

    def move(self, number, tag):
        moved = self.nodes[number]
        old, moved.tag = moved.tag, self.tags[tag]
        if moved.tag is not old:
            self.index.moved(moved, old)

    def score(self, tag, score):
        self.tags[tag].score = score
        self.index.changed(self.tags[tag])

    def settle(self):
        self.index.settle()

    def pop(self):
        if (victim := self.index.peek()) is not None:
            self.discard(victim.node_id)

    def look(self):
        expected = self.expected()
        assert self.index.peek() is (expected[0] if expected else None)
        assert self.index.ordered() == expected
        assert len(self.index) == len(expected)
        assert [n in self.index for n in self.nodes] == [n in expected for n in self.nodes]

    def renew(self):
        """All nodes leave a tag, which is dropped, as the last tag of a workflow is."""
        old, new = self.tags[0], Tag()
        self.tags[0] = new
        for moved in self.nodes:
            if moved.tag is old:
                moved.tag = new
                self.index.moved(moved, old)
        self.index.drop(old)

    def drain(self):
        """Every victim is the smallest, down to the last."""
        for expected in self.expected():
            assert self.index.peek() is expected
            self.index.discard(expected)
        assert self.index.peek() is None


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("looks_every_time", [False, True])
@settings(max_examples=150, deadline=None)
@given(steps=operations)
def test_it_agrees_with_a_sort(newest, looks_every_time, steps):
    world = World(newest)
    for kind, *arguments in steps:
        getattr(world, kind)(*arguments)
        if looks_every_time:
            world.look()
    world.look()
    world.drain()
