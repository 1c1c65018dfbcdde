"""Conservative prefetch (paper 4.3): what to load from the host before a request asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pbkv.policy.base import PrefetchBudget
from pbkv.policy.index import EvictionIndex, Priority
from pbkv.policy.node import CacheNode

_MAX_MISFITS = 16
"""Candidates too large for what is left of the budget, after which the search ends."""


class ValuePrefetcher:
    """Host nodes in descending order of Value(c), eq. (1), greedily within the budget.

    The paper's knapsack is NP-hard; greedy by value is its heuristic. A node that does not fit is
    passed over for smaller ones, a few times. ``value`` is read when it matters; a rise must be
    announced with :meth:`rose`, a fall is found by itself.
    """

    def __init__(
        self,
        value: Callable[[CacheNode], float],
        missing_ancestors: Callable[[CacheNode], list[CacheNode]],
    ) -> None:
        self._value = value
        self._missing_ancestors = missing_ancestors
        self._candidates = EvictionIndex(self._order)

    def __len__(self) -> int:
        return len(self._candidates)

    def add(self, node: CacheNode) -> None:
        """``node`` is on the host and not on the device."""
        self._candidates.add(node)

    def discard(self, node: CacheNode) -> None:
        """``node`` is on the device now, or nowhere."""
        self._candidates.discard(node)

    def rose(self, node: CacheNode) -> None:
        """The value of ``node`` may have risen."""
        self._candidates.fell(node)

    def all_rose(self, nodes: Iterable[CacheNode]) -> None:
        """As :meth:`rose`, of many nodes at once."""
        self._candidates.all_fell(nodes)

    def settle(self) -> None:
        """Bring the order up to date now, so that no plan has to do it first."""
        self._candidates.settle()

    def clear(self) -> None:
        self._candidates.clear()

    def candidates(self) -> list[CacheNode]:
        """All candidates, most valuable first, for inspection."""
        return self._candidates.ordered()

    def plan(self, budget: PrefetchBudget) -> list[CacheNode]:
        """Nodes worth loading, each after its ancestors, of at most ``budget.tokens`` tokens."""
        left = budget.tokens
        planned: dict[int, CacheNode] = {}
        seen: list[CacheNode] = []
        misfits = 0
        while left > 0 and misfits < _MAX_MISFITS:
            node = self._candidates.peek()
            if node is None or self._value(node) <= 0.0:
                break
            # Out of the way of the next look, and back before anybody else looks.
            self._candidates.discard(node)
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
            self._candidates.add(node)
        return list(planned.values())

    def _order(self, node: CacheNode) -> Priority:
        return (-self._value(node),)
