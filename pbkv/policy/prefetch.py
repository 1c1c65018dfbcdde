"""Conservative prefetch (paper 4.3): what to load from the host before a request asks for it."""

from __future__ import annotations

from collections.abc import Callable

from pbkv.policy.base import PrefetchBudget
from pbkv.policy.index import EvictionIndex, Rank
from pbkv.policy.node import CacheNode
from pbkv.policy.tag import Tag

_MAX_MISFITS = 16
"""Candidates too large for what is left of the budget, after which the search ends."""


class ValuePrefetcher:
    """Host nodes in descending order of Value(c), eq. (1), greedily within the budget.

    The paper's knapsack is NP-hard; greedy by value is its heuristic. A node that does not fit is
    passed over for smaller ones, a few times. Equal values go by node id.

    ``candidates`` are the nodes on the host and not on the device, most valuable first; whoever
    knows of their tags keeps it informed.
    """

    def __init__(
        self,
        value: Callable[[Tag], float],
        missing_ancestors: Callable[[CacheNode], list[CacheNode]],
    ) -> None:
        self._value = value
        self._missing_ancestors = missing_ancestors
        self.candidates = EvictionIndex(self._order, key=_no_key)

    def plan(self, budget: PrefetchBudget) -> list[CacheNode]:
        """Nodes worth loading, each after its ancestors, of at most ``budget.tokens`` tokens."""
        left = budget.tokens
        planned: dict[int, CacheNode] = {}
        seen: list[CacheNode] = []
        misfits = 0
        while left > 0 and misfits < _MAX_MISFITS:
            node = self.candidates.peek()
            if node is None or self._value(node.tag) <= 0.0:
                break
            # Out of the way of the next look, and back before anybody else looks.
            self.candidates.discard(node)
            seen.append(node)
            if node.node_id in planned:
                continue
            chain = [n for n in self._missing_ancestors(node) if n.node_id not in planned]
            chain.append(node)
            needed = sum(n.num_tokens for n in chain)
            if needed > left:
                misfits += 1
                continue
            left -= needed
            planned |= {n.node_id: n for n in chain}
        for node in seen:
            self.candidates.add(node)
        return list(planned.values())

    def _order(self, tag: Tag) -> Rank:
        return (-self._value(tag),)


def _no_key(node: CacheNode) -> float:
    return 0.0
