"""Lifecycle-aware eviction (paper 4.2.1)."""

from __future__ import annotations

from pbkv.forecast import Forecast
from pbkv.policy.base import EvictionPolicy, EvictionReason
from pbkv.policy.index import Rank
from pbkv.policy.node import CacheNode
from pbkv.policy.tag import Tag


class LaePolicy(EvictionPolicy):
    """Evicts retired cache first, then active cache by recency.

    Among retired nodes those that few workflows accessed go first, so that a prefix shared by many
    outlives private leftovers; ties go by recency.
    """

    name = "lae"

    def rank(self, tag: Tag) -> Rank:
        return (1, 0) if tag.active_workflows else (0, tag.num_workflows)

    def explain(self, node: CacheNode) -> EvictionReason:
        return EvictionReason.RETIRED if node.retired else EvictionReason.RECENCY

    def on_forecast(self, forecast: Forecast) -> None:
        """A forecast does not change this order."""
