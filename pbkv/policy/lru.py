"""Least recently used: the order of the stock engine, and the baseline of the paper."""

from __future__ import annotations

from pbkv.forecast import Forecast
from pbkv.policy.base import EvictionPolicy, EvictionReason
from pbkv.policy.index import Rank
from pbkv.policy.node import CacheNode
from pbkv.policy.tag import Tag


class LruPolicy(EvictionPolicy):
    """Evicts the node that was accessed longest ago. Workflows are known and change nothing."""

    name = "lru"

    def rank(self, tag: Tag) -> Rank:
        return ()

    def explain(self, node: CacheNode) -> EvictionReason:
        return EvictionReason.RECENCY

    def on_forecast(self, forecast: Forecast) -> None:
        """A forecast does not change this order."""
