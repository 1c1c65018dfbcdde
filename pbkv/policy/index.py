"""An ordered set of eviction candidates: O(1) peek, O(log n) change."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from pbkv.policy.node import CacheNode

Priority = tuple[Any, ...]
"""Orders candidates, smallest evicted first. All priorities of one index compare."""


class EvictionIndex:
    """Candidates ordered by a priority that is read from the node when it matters.

    A binary heap with lazy repair. Invariant: every candidate has an entry whose recorded priority
    is not above its true one. A rise (an access makes a node more recent) needs no call, it is
    found when the entry reaches the top; a fall (its workflow retires) must be announced with
    :meth:`fell`. Entries of nodes that left, and doubles, are dropped when they reach the top, and
    the heap is rebuilt when more than half of it is such waste, so memory is O(candidates).
    """

    def __init__(self, priority: Callable[[CacheNode], Priority]) -> None:
        self._priority = priority
        self._nodes: dict[int, CacheNode] = {}
        # Ties end at the node id, which is the same on every rank.
        self._heap: list[tuple[Priority, int]] = []

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: CacheNode) -> bool:
        return node.node_id in self._nodes

    def add(self, node: CacheNode) -> None:
        """Make ``node`` a candidate; no effect if it is one."""
        if node.node_id not in self._nodes:
            self._nodes[node.node_id] = node
            self._push(node)

    def discard(self, node: CacheNode) -> None:
        """``node`` is no candidate any more; no effect if it was none."""
        self._nodes.pop(node.node_id, None)

    def fell(self, node: CacheNode) -> None:
        """The priority of ``node`` may have fallen."""
        if node.node_id in self._nodes:
            self._push(node)

    def clear(self) -> None:
        self._nodes.clear()
        self._heap.clear()

    def peek(self) -> CacheNode | None:
        """The candidate to evict first, or None. It stays a candidate."""
        heap = self._heap
        while heap:
            recorded, node_id = heap[0]
            node = self._nodes.get(node_id)
            if node is None:
                heapq.heappop(heap)
                continue
            current = self._priority(node)
            if current == recorded:
                return node
            # Risen since, or a double whose fallen twin is below it already.
            heapq.heapreplace(heap, (current, node_id))
        return None

    def ordered(self) -> list[CacheNode]:
        """All candidates in order. O(n log n): for inspection, not for eviction."""
        return sorted(self._nodes.values(), key=lambda node: (self._priority(node), node.node_id))

    def _push(self, node: CacheNode) -> None:
        if len(self._heap) > 2 * len(self._nodes) + 64:
            self._heap = [(self._priority(n), n.node_id) for n in self._nodes.values()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (self._priority(node), node.node_id))
