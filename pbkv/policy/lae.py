"""Lifecycle-aware eviction (paper 4.2.1)."""

from __future__ import annotations

from pbkv.forecast import Forecast
from pbkv.policy.base import EvictionPolicy, EvictionReason
from pbkv.policy.index import Priority
from pbkv.policy.node import CacheNode


class LaePolicy(EvictionPolicy):
    """Evicts retired cache first, then active cache by recency.

    Among retired nodes those that few workflows accessed go first, so that a prefix shared by many
    outlives private leftovers; ties go by recency.
    """

    name = "lae"

    def priority(self, node: CacheNode) -> Priority:
        if node.retired:
            return (0, node.num_workflows, node.last_access_s)
        return (1, 0, node.last_access_s)

    def explain(self, node: CacheNode) -> EvictionReason:
        return EvictionReason.RETIRED if node.retired else EvictionReason.RECENCY

    def on_forecast(self, forecast: Forecast) -> None:
        """A forecast does not change this order."""
