"""SGLang's Python tree core, reporting to an eviction policy what happens to its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_cache.unified_tree_core import (
    UnifiedTreeCore,
    UnifiedTreeNode,
)

from pbkv.policy import EvictionPolicy, Tier
from pbkv.sglang.views import NodeViews

if TYPE_CHECKING:
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams

    from pbkv.sglang.component import PolicyFullComponent


class _CandidateSet(set[UnifiedTreeNode]):
    """The tree's own set of evictable leaves of one tier, mirrored into the policy's order.

    The tree keeps this set exact at every lock, unlock, insert and removal, so the order can be
    kept by change instead of being rebuilt from the set at every eviction as stock does.
    """

    def __init__(self, policy: EvictionPolicy, views: NodeViews, tier: Tier) -> None:
        super().__init__()
        self._policy = policy
        self._views = views
        self._tier = tier

    def add(self, node: UnifiedTreeNode) -> None:
        if node not in self:
            super().add(node)
            self._policy.add_candidate(self._views.of(node), self._tier)

    def discard(self, node: UnifiedTreeNode) -> None:
        if node in self:
            super().discard(node)
            self._policy.drop_candidate(self._views.of(node), self._tier)


class PolicyTreeCore(UnifiedTreeCore):
    """The stock tree with a policy attached. Structure, locks and values are stock."""

    def __init__(self, params: CacheInitParams, components: dict[ComponentType, Any]) -> None:
        full: PolicyFullComponent = components[ComponentType.FULL]
        self._policy = full.policy
        self._views = full.views
        super().__init__(params, components)

    def reset(self) -> None:
        self._policy.clear_nodes()
        self._views.clear()
        super().reset()
        self.evictable_device_leaves = _CandidateSet(self._policy, self._views, Tier.DEVICE)
        self.evictable_host_leaves = _CandidateSet(self._policy, self._views, Tier.HOST)

    def _unregister_node(self, node: UnifiedTreeNode) -> None:
        super()._unregister_node(node)
        view = self._views.pop(node)
        if view is not None:
            self._policy.on_remove(view)

    def _add_new_node(self, *args: Any, **kwargs: Any) -> UnifiedTreeNode:
        node = super()._add_new_node(*args, **kwargs)
        self._policy.on_store(self._views.of(node), Tier.DEVICE)
        return node

    def _unevict_node_on_insert(self, node: UnifiedTreeNode, *args: Any, **kwargs: Any) -> None:
        super()._unevict_node_on_insert(node, *args, **kwargs)
        self._policy.on_store(self._views.of(node), Tier.DEVICE)

    def insert_host(self, node_id: int, *args: Any, **kwargs: Any) -> Any:
        result = super().insert_host(node_id, *args, **kwargs)
        # Storage prefetch filled host values on a path; its end is all that the result names.
        end = result.inserted_host_node
        node = self.node_by_id(end) if end is not None else None
        while node is not None and node is not self.root_node:
            if node.backuped:
                self._policy.on_store(self._views.of(node), Tier.HOST)
            node = node.parent
        return result
