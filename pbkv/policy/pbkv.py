"""The full policy of the paper: hierarchical eviction and conservative prefetch (4.3), and the
aggressive variant that its Appendix E compares it with."""

from __future__ import annotations

from pbkv.policy.he import HePolicy
from pbkv.policy.node import CacheNode, Tier
from pbkv.policy.prefetch import ValuePrefetcher
from pbkv.settings import PolicySettings


class PbkvPolicy(HePolicy):
    """``he`` with a prefetcher over the nodes that are on the host only.

    ``displaced_share`` is the share of the device pool that a prefetch may take from active cache:
    none, since the cost of displacing is certain and the benefit of prefetching is not.
    """

    name = "pbkv"

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        self.prefetcher = ValuePrefetcher(self.tag_value, self.missing_ancestors)
        self._indexes.append(self.prefetcher.candidates)

    @property
    def displaced_share(self) -> float:
        """Share of the device pool that a prefetch may displace of active cache, 0 to 1."""
        return 0.0

    def on_store(self, node: CacheNode, tier: Tier) -> None:
        super().on_store(node, tier)
        self._update_prefetchable(node)

    def on_release(self, node: CacheNode, tier: Tier) -> None:
        super().on_release(node, tier)
        self._update_prefetchable(node)

    def on_split(self, parent: CacheNode, child: CacheNode) -> None:
        super().on_split(parent, child)
        self._update_prefetchable(parent)

    def _update_prefetchable(self, node: CacheNode) -> None:
        if self.tiers_of(node) == {Tier.HOST}:
            self.prefetcher.candidates.add(node)
        else:
            self.prefetcher.candidates.discard(node)

    def missing_ancestors(self, node: CacheNode) -> list[CacheNode]:
        """Ancestors that are not on the device, the highest first."""
        missing: list[CacheNode] = []
        above = self.node(node.parent_id)
        while above is not None and Tier.DEVICE not in self.tiers_of(above):
            missing.append(above)
            above = self.node(above.parent_id)
        missing.reverse()
        return missing


class PbkvAggressivePolicy(PbkvPolicy):
    """May displace up to rho of the device pool, the lowest scored active cache first."""

    name = "pbkv-aggressive"

    @property
    def displaced_share(self) -> float:
        return self.settings.aggressive_rho
