"""The order of one tier's eviction candidates, on two levels."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from pbkv.policy.heap import LazyHeap
from pbkv.policy.node import CacheNode
from pbkv.policy.tag import Tag

Rank = tuple[Any, ...]
"""Orders tags, smallest first. All ranks of one index compare."""


Place = tuple[Rank, float, int]
"""Rank, key and id of a node: where it stands among candidates."""


recency: Callable[[CacheNode], float] = attrgetter("last_access_s")
"""Orders nodes of one rank: the one accessed longest ago goes first."""


def _newest_first(node: CacheNode) -> float:
    return -node.last_access_s


class EvictionIndex:
    """Candidates by (rank of the tag, key of the node, node id), smallest first.

    The nodes of one tag form a group, ordered among themselves; a heap of groups is ordered by
    rank, then by the first node. So a change of rank, as by a forecast, costs O(log groups) for all
    nodes of the tag, and a victim O(log n).

    Every change of a rank must be announced with :meth:`changed`. Keys are read when it matters: a
    rise is found by itself, a fall must be announced with :meth:`touched`. ``newest_first`` says,
    as part of the rank, for which tags the key is turned round: there an access is a fall.
    """

    def __init__(
        self,
        rank: Callable[[Tag], Rank],
        key: Callable[[CacheNode], float] = recency,
        newest_first: Callable[[Tag], bool] | None = None,
    ) -> None:
        self._rank = rank
        self._key = key
        self._newest_first = newest_first
        self._groups: dict[Tag, _Group] = {}
        self._made_groups = 0
        self._order: LazyHeap[_Group] = LazyHeap(self._priority)

    def __len__(self) -> int:
        return sum(len(group.nodes.items) for group in self._groups.values())

    def __contains__(self, node: CacheNode) -> bool:
        group = self._groups.get(node.tag)
        return group is not None and node.node_id in group.nodes.items

    def add(self, node: CacheNode) -> None:
        """Make ``node`` a candidate; no effect if it is one."""
        tag = node.tag
        group = self._groups.get(tag)
        if group is None:
            group = self._groups[tag] = _Group(self._made_groups, tag, self._key)
            self._made_groups += 1
        group.nodes.add(node.node_id, node)
        if group.newest is not None:
            group.newest.add(node.node_id, node)
        number = group.number
        if number in self._order.items:
            self._order.fell(number)
        else:
            self._order.add(number, group)

    def discard(self, node: CacheNode) -> None:
        """``node`` is no candidate any more; no effect if it was none."""
        group = self._groups.get(node.tag)
        if group is not None:
            self._take(group, node)

    def moved(self, node: CacheNode, old: Tag) -> None:
        """``node.tag`` was ``old``."""
        group = self._groups.get(old)
        if group is not None and node.node_id in group.nodes.items:
            self._take(group, node)
            self.add(node)

    def changed(self, tag: Tag) -> None:
        """The rank of ``tag`` may be any other now."""
        group = self._groups.get(tag)
        if group is not None:
            group.rank = None
            self._order.fell(group.number)

    def touched(self, node: CacheNode) -> None:
        """The key of ``node`` may have fallen, and the rank of its tag have changed."""
        group = self._groups.get(node.tag)
        if group is not None:
            group.rank = None
            group.nodes.fell(node.node_id)
            if group.newest is not None:
                group.newest.fell(node.node_id)
            self._order.fell(group.number)

    def drop(self, tag: Tag) -> None:
        """``tag`` has no node any more."""
        group = self._groups.pop(tag, None)
        if group is not None:
            self._order.discard(group.number)

    def settle(self) -> None:
        """Do now what the next :meth:`peek` would have to do first."""
        self._order.settle()

    def clear(self) -> None:
        self._groups.clear()
        self._order.clear()

    def peek(self) -> CacheNode | None:
        """The candidate to evict first, or None. It stays a candidate."""
        first = self._order.peek()
        return None if first is None else first[1].head

    def place(self, node: CacheNode) -> Place:
        """Where ``node`` stands, or would stand."""
        tag = node.tag
        key = self._key(node)
        turned = self._newest_first is not None and self._newest_first(tag)
        return (self._rank(tag), -key if turned else key, node.node_id)

    def ordered(self) -> list[CacheNode]:
        """All candidates in order. O(n log n): for inspection, not for eviction."""
        nodes = (node for group in self._groups.values() for node in group.nodes.items.values())
        return sorted(nodes, key=self.place)

    def _take(self, group: _Group, node: CacheNode) -> None:
        group.nodes.discard(node.node_id)
        if group.newest is not None:
            group.newest.discard(node.node_id)
        if not group.nodes.items:
            self._order.discard(group.number)

    def _priority(self, group: _Group) -> Place:
        """The place of its first node, which is ``group.head`` from now on."""
        rank = group.rank
        if rank is None:
            tag = group.tag
            rank = group.rank = self._rank(tag)
            group.turned = self._newest_first is not None and self._newest_first(tag)
        first = group.newest_heap().peek() if group.turned else group.nodes.peek()
        assert first is not None, "only groups with nodes are in the order"
        key, head = first
        group.head = head
        return (rank, key, head.node_id)


class _Group:
    """The candidates of one tag, and what was last read of it."""

    __slots__ = ("head", "newest", "nodes", "number", "rank", "tag", "turned")

    def __init__(self, number: int, tag: Tag, key: Callable[[CacheNode], float]) -> None:
        self.number = number
        self.tag = tag
        self.rank: Rank | None = None
        self.turned = False
        self.head: CacheNode | None = None
        self.nodes: LazyHeap[CacheNode] = LazyHeap(key)
        self.newest: LazyHeap[CacheNode] | None = None

    def newest_heap(self) -> LazyHeap[CacheNode]:
        """The same nodes turned round, kept from the first time anybody asks."""
        if self.newest is None:
            self.newest = LazyHeap(_newest_first)
            for node in self.nodes.items.values():
                self.newest.add(node.node_id, node)
        return self.newest
