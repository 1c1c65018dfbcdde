"""A priority queue whose priorities change behind its back: O(1) peek, O(log n) change."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

Priority = Any
"""Orders items, smallest first. All priorities of one heap compare."""

_SPARE = 64
"""Waste that is not worth clearing away."""
_CLEARED_PER_PUSH = 4


class LazyHeap(Generic[Item]):
    """Items by number, ordered by a priority that is read from the item when it matters.

    A binary heap with lazy repair. Invariant: every item has an entry, the one that ``_recorded``
    names, whose priority is not above its true one. A rise (an access makes a node more recent)
    needs no call, it is found when the entry reaches the top; a fall must be announced with
    :meth:`fell`. Announced falls are settled together, at the next look or at :meth:`settle`, and
    cost a push only where the priority is below what is recorded by then: a forecast that goes and
    the next one that comes often cancel out. An item that leaves keeps its entry, so that one that
    comes back, as leaves do at every unlock, usually finds it still good.

    All other entries are waste. They are dropped when they reach the top, and when they are more
    than half of the heap, it is set aside and its entries are carried over a few at every push:
    memory is O(items), and no single call pays for all of it.

    ``items`` is to be read only.
    """

    __slots__ = ("_aside", "_fallen", "_heap", "_priority", "_recorded", "items")

    def __init__(self, priority: Callable[[Item], Priority]) -> None:
        self._priority = priority
        self.items: dict[int, Item] = {}
        # Equal priorities go by number, which is the same on every rank.
        self._heap: list[tuple[Priority, int]] = []
        self._aside: list[tuple[Priority, int]] = []
        self._recorded: dict[int, Priority] = {}
        self._fallen: dict[int, None] = {}

    def add(self, number: int, item: Item) -> None:
        """Take ``item`` in; no effect if it is in."""
        if number not in self.items:
            self.items[number] = item
            self._record(number, item)

    def discard(self, number: int) -> None:
        """Take the item out; no effect if it is not in."""
        self.items.pop(number, None)

    def fell(self, number: int) -> None:
        """The priority of the item may have fallen."""
        if number in self.items:
            self._fallen[number] = None

    def settle(self) -> None:
        """Do now what the next :meth:`peek` would have to do first."""
        if self._fallen:
            fallen, self._fallen = self._fallen, {}
            for number in fallen:
                item = self.items.get(number)
                if item is not None:
                    self._record(number, item)

    def clear(self) -> None:
        self.items.clear()
        self._heap.clear()
        self._aside.clear()
        self._recorded.clear()
        self._fallen.clear()

    def peek(self) -> tuple[Priority, Item] | None:
        """The first item and its priority, or None. It stays in."""
        if self._fallen:
            self.settle()
        # Bound once: an eviction asks for every one of its victims.
        main, aside = self._heap, self._aside
        items, recorded_of, priority_of = self.items, self._recorded, self._priority
        while True:
            heap = main
            if aside and (not main or aside[0] < main[0]):
                heap = aside
            elif not main:
                return None
            recorded, number = heap[0]
            if recorded_of.get(number) is not recorded:
                heapq.heappop(heap)
                continue
            item = items.get(number)
            if item is None:
                heapq.heappop(heap)
                del recorded_of[number]
                continue
            current = priority_of(item)
            if current == recorded:
                return recorded, item
            recorded_of[number] = current
            heapq.heapreplace(heap, (current, number))
            if not aside and heap[0][0] is current:
                return current, item

    def _record(self, number: int, item: Item) -> None:
        priority = self._priority(item)
        recorded = self._recorded.get(number)
        if recorded is None or priority < recorded:
            self._recorded[number] = priority
            heapq.heappush(self._heap, (priority, number))
            if self._aside:
                self._carry_over()
            elif len(self._heap) > 2 * len(self.items) + _SPARE:
                self._heap, self._aside = self._aside, self._heap

    def _carry_over(self) -> None:
        """Bring a few entries back, or drop them; what is left of a heap without its end is one."""
        aside = self._aside
        for _ in range(min(_CLEARED_PER_PUSH, len(aside))):
            entry = aside.pop()
            priority, number = entry
            if self._recorded.get(number) is priority:
                if number in self.items:
                    heapq.heappush(self._heap, entry)
                else:
                    del self._recorded[number]
