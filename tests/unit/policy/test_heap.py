from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbkv.policy.heap import LazyHeap


class Item:
    def __init__(self, number, priority=0.0):
        self.number = number
        self.priority = priority


def heap_of(*items):
    heap = LazyHeap(lambda item: item.priority)
    for item in items:
        heap.add(item.number, item)
    return heap


def test_peek_is_the_smallest_and_keeps_it():
    first, second = Item(1, 1.0), Item(2, 2.0)
    heap = heap_of(second, first)

    assert heap.peek() == (1.0, first)
    assert heap.peek() == (1.0, first)
    assert list(heap.items.values()) == [second, first]


def test_a_rise_needs_no_call():
    first, second = Item(1, 1.0), Item(2, 2.0)
    heap = heap_of(first, second)
    first.priority = 3.0

    assert heap.peek() == (2.0, second)


def test_ties_go_by_number():
    assert heap_of(Item(3), Item(1), Item(2)).peek()[1].number == 1


operations = st.lists(
    st.tuples(
        st.sampled_from(("add", "discard", "rise", "fall", "fall all", "settle", "pop", "look")),
        st.integers(0, 7),
        st.integers(1, 50),
    ),
    max_size=120,
)


def agree(steps, looks_every_time):
    items = {number: Item(number, float(number)) for number in range(8)}
    heap = heap_of()
    members = set()
    for kind, number, amount in [*steps, ("look", 0, 0)]:
        subject = items[number]
        if kind == "add":
            heap.add(number, subject)
            members.add(number)
        elif kind == "discard":
            heap.discard(number)
            members.discard(number)
        elif kind == "rise":
            subject.priority += amount
        elif kind in ("fall", "fall all"):
            for other in (subject,) if kind == "fall" else items.values():
                other.priority -= amount
                heap.fell(other.number)
        elif kind == "settle":
            heap.settle()
        elif kind == "pop" and (top := heap.peek()) is not None:
            heap.discard(top[1].number)
            members.discard(top[1].number)
        if looks_every_time or kind == "look":
            expected = min(members, key=lambda n: (items[n].priority, n), default=None)
            found = heap.peek()
            assert (found[1].number if found else None) == expected
            assert heap.items.keys() == members


@settings(max_examples=200)
@given(operations, st.booleans())
def test_it_agrees_with_a_sort_however_often_anybody_looks(steps, looks_every_time):
    agree(steps, looks_every_time)


@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_a_sort_while_waste_is_cleared_away(seed):
    """Long enough, and with falls enough, for the heap to be set aside and carried over."""
    random = Random(seed)
    kinds = ("add", "discard", "fall", "fall", "fall", "settle", "rise", "look")
    agree(
        [
            (random.choice(kinds), random.randrange(8), random.randrange(1, 50))
            for _ in range(1_000)
        ],
        looks_every_time=False,
    )


def test_memory_stays_within_the_number_of_items():
    subject = Item(1)
    heap = heap_of(subject)
    for _ in range(10_000):
        subject.priority -= 1.0
        heap.fell(1)
        heap.settle()
        assert len(heap._heap) + len(heap._aside) <= 150


def test_items_that_left_are_cleared_away_by_those_that_come():
    heap = heap_of(*(Item(number, float(number)) for number in range(10_000)))
    for number in range(10_000):
        heap.discard(number)
    for number in range(10_000, 14_000):
        heap.add(number, Item(number, 20_000.0 - number))

    assert heap.peek()[1].number == 13_999
    assert len(heap._heap) + len(heap._aside) == len(heap._recorded) == 4_000


def test_no_push_clears_more_than_a_few_entries():
    subject = Item(1)
    heap = heap_of(*(Item(number, 1.0) for number in range(2, 1_000)), subject)
    for _ in range(5_000):
        before = len(heap._aside)
        subject.priority -= 1.0
        heap.fell(1)
        heap.settle()
        assert len(heap._aside) >= before - 4


def test_an_item_that_leaves_and_comes_back_later_needs_no_second_entry():
    subject = Item(1, 1.0)
    heap = heap_of()
    for _ in range(10):
        heap.add(1, subject)
        heap.discard(1)
        subject.priority += 1.0

    assert len(heap._heap) == 1


def test_a_fall_that_is_taken_back_before_anybody_looks_costs_no_entry():
    subject = Item(1, 5.0)
    heap = heap_of(subject)
    for _ in range(10):
        subject.priority = 0.0
        heap.fell(1)
        subject.priority = 6.0
    heap.settle()

    assert heap.peek() == (6.0, subject)
    assert len(heap._heap) == 1
