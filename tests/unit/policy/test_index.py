from hypothesis import given, settings
from hypothesis import strategies as st

from pbkv.policy.index import EvictionIndex
from pbkv.policy.node import CacheNode


def by_recency(node):
    return (node.last_access_s,)


def node(node_id, last_access_s=0.0):
    return CacheNode(node_id, last_access_s=last_access_s)


def test_peek_is_the_smallest_and_keeps_it():
    index = EvictionIndex(by_recency)
    old, new = node(1, 1.0), node(2, 2.0)
    index.add(new)
    index.add(old)

    assert index.peek() is old
    assert index.peek() is old
    assert len(index) == 2


def test_a_rise_needs_no_call():
    index = EvictionIndex(by_recency)
    first, second = node(1, 1.0), node(2, 2.0)
    index.add(first)
    index.add(second)
    first.last_access_s = 3.0

    assert index.peek() is second


def test_ties_go_by_node_id():
    index = EvictionIndex(by_recency)
    for node_id in (3, 1, 2):
        index.add(node(node_id))

    assert index.peek().node_id == 1


operations = st.lists(
    st.tuples(
        st.sampled_from(("add", "discard", "rise", "fall", "pop")),
        st.integers(0, 7),
        st.integers(1, 50),
    ),
    max_size=120,
)


@settings(max_examples=200)
@given(operations)
def test_it_agrees_with_a_sort_after_every_operation(steps):
    nodes = {i: node(i, float(i)) for i in range(8)}
    index = EvictionIndex(by_recency)
    members = set()
    for kind, i, amount in steps:
        subject = nodes[i]
        if kind == "add":
            index.add(subject)
            members.add(i)
        elif kind == "discard":
            index.discard(subject)
            members.discard(i)
        elif kind == "rise":
            subject.last_access_s += amount
        elif kind == "fall":
            subject.last_access_s -= amount
            index.fell(subject)
        elif (victim := index.peek()) is not None:
            index.discard(victim)
            members.discard(victim.node_id)
        expected = min(members, key=lambda j: (nodes[j].last_access_s, j), default=None)
        found = index.peek()
        assert (found.node_id if found else None) == expected
        assert len(index) == len(members)


def test_memory_stays_within_the_number_of_candidates():
    index = EvictionIndex(by_recency)
    subject = node(1, 0.0)
    index.add(subject)
    for _ in range(10_000):
        subject.last_access_s -= 1.0
        index.fell(subject)

    assert len(index._heap) <= 2 * len(index) + 65


looks = st.lists(
    st.tuples(
        st.sampled_from(("add", "discard", "rise", "fall", "fall all", "settle", "look")),
        st.integers(0, 7),
        st.integers(1, 50),
    ),
    max_size=120,
)


@settings(max_examples=200)
@given(looks)
def test_it_agrees_with_a_sort_however_rarely_anybody_looks(steps):
    nodes = {i: node(i, float(i)) for i in range(8)}
    index = EvictionIndex(by_recency)
    members = set()
    for kind, i, amount in [*steps, ("look", 0, 0)]:
        subject = nodes[i]
        if kind == "add":
            index.add(subject)
            members.add(i)
        elif kind == "discard":
            index.discard(subject)
            members.discard(i)
        elif kind == "rise":
            subject.last_access_s += amount
        elif kind == "fall":
            subject.last_access_s -= amount
            index.fell(subject)
        elif kind == "fall all":
            for other in nodes.values():
                other.last_access_s -= amount
            index.all_fell(nodes.values())
        elif kind == "settle":
            index.settle()
        else:
            expected = min(members, key=lambda j: (nodes[j].last_access_s, j), default=None)
            found = index.peek()
            assert (found.node_id if found else None) == expected


def test_a_node_that_leaves_and_comes_back_newer_needs_no_second_entry():
    index = EvictionIndex(by_recency)
    subject = node(1, 1.0)
    for _ in range(10):
        index.add(subject)
        index.discard(subject)
        subject.last_access_s += 1.0

    assert len(index._heap) == 1


def test_a_fall_that_is_taken_back_before_anybody_looks_costs_no_entry():
    index = EvictionIndex(by_recency)
    subject = node(1, 5.0)
    index.add(subject)
    for _ in range(10):
        subject.last_access_s = 0.0
        index.fell(subject)
        subject.last_access_s = 6.0
    index.settle()

    assert index.peek() is subject
    assert len(index._heap) == 1
