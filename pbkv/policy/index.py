"""An ordered set of eviction candidates: O(1) peek, O(log n) change."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from pbkv.policy.node import CacheNode

Priority = tuple[Any, ...]
"""Orders candidates, smallest evicted first. All priorities of one index compare."""


class EvictionIndex:
    """Candidates ordered by a priority that is read from the node when it matters.

    A binary heap with lazy repair. Invariant: every candidate has an entry, the one that
    ``_recorded`` names, whose priority is not above its true one. A rise (an access makes a node
    more recent) needs no call, it is found when the entry reaches the top; a fall (its workflow
    retires) must be announced with :meth:`fell`. Announced falls are settled together, at the next
    look or at :meth:`settle`, and cost a push only where the priority is below what is recorded by
    then: a forecast that goes and the next one that comes often cancel out. A node that leaves
    keeps its entry, so that one that comes back, as leaves do at every unlock, usually finds it
    still good.

    All other entries are waste. They are dropped when they reach the top, and the heap is rebuilt
    from the recorded priorities when more than half of it is waste: memory is O(candidates).
    """

    def __init__(self, priority: Callable[[CacheNode], Priority]) -> None:
        self._priority = priority
        self._nodes: dict[int, CacheNode] = {}
        # Ties end at the node id, which is the same on every rank.
        self._heap: list[tuple[Priority, int]] = []
        self._recorded: dict[int, Priority] = {}
        self._fallen: dict[int, CacheNode] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: CacheNode) -> bool:
        return node.node_id in self._nodes

    def add(self, node: CacheNode) -> None:
        """Make ``node`` a candidate; no effect if it is one."""
        if node.node_id not in self._nodes:
            self._nodes[node.node_id] = node
            self._record(node)

    def discard(self, node: CacheNode) -> None:
        """``node`` is no candidate any more; no effect if it was none."""
        self._nodes.pop(node.node_id, None)

    def fell(self, node: CacheNode) -> None:
        """The priority of ``node`` may have fallen."""
        node_id = node.node_id
        if node_id in self._nodes:
            self._fallen[node_id] = node

    def all_fell(self, nodes: Iterable[CacheNode]) -> None:
        """As :meth:`fell`, of many nodes at once."""
        members, fallen = self._nodes, self._fallen
        if members:
            for node in nodes:
                node_id = node.node_id
                if node_id in members:
                    fallen[node_id] = node

    def settle(self) -> None:
        """Do now what the next :meth:`peek` would have to do first."""
        if self._fallen:
            fallen, self._fallen = self._fallen, {}
            members, record = self._nodes, self._record
            for node_id, node in fallen.items():
                if node_id in members:
                    record(node)

    def clear(self) -> None:
        self._fallen.clear()
        self._nodes.clear()
        self._heap.clear()
        self._recorded.clear()

    def peek(self) -> CacheNode | None:
        """The candidate to evict first, or None. It stays a candidate."""
        self.settle()
        heap = self._heap
        while heap:
            recorded, node_id = heap[0]
            if self._recorded.get(node_id) is not recorded:
                heapq.heappop(heap)
                continue
            node = self._nodes.get(node_id)
            if node is None:
                heapq.heappop(heap)
                del self._recorded[node_id]
                continue
            current = self._priority(node)
            if current == recorded:
                return node
            self._recorded[node_id] = current
            heapq.heapreplace(heap, (current, node_id))
        return None

    def ordered(self) -> list[CacheNode]:
        """All candidates in order. O(n log n): for inspection, not for eviction."""
        return sorted(self._nodes.values(), key=lambda node: (self._priority(node), node.node_id))

    def _record(self, node: CacheNode) -> None:
        priority = self._priority(node)
        node_id = node.node_id
        recorded = self._recorded.get(node_id)
        if recorded is None or priority < recorded:
            self._recorded[node_id] = priority
            heapq.heappush(self._heap, (priority, node_id))
            if len(self._heap) > 2 * len(self._nodes) + 64:
                self._rebuild()

    def _rebuild(self) -> None:
        self._recorded = {node_id: self._recorded[node_id] for node_id in self._nodes}
        self._heap = [(priority, node_id) for node_id, priority in self._recorded.items()]
        heapq.heapify(self._heap)
