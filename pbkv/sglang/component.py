"""The full-attention component of the tree, evicting in the order of an eviction policy."""

from __future__ import annotations

import sys
from contextlib import closing
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sglang.srt.mem_cache.unified_cache.components.base import CacheTransferPhase, EvictLayer
from sglang.srt.mem_cache.unified_cache.components.full import FullComponent

from pbkv.policy import CacheNode, EvictionReason, Tier
from pbkv.sglang.binding import current_binding

if TYPE_CHECKING:
    from sglang.srt.mem_cache.unified_cache.unified_tree_core import UnifiedTreeNode


class PolicyFullComponent(FullComponent):
    """Stock transfers, locks and ledgers; the order of eviction comes from the policy.

    Stock builds a heap of all evictable leaves at every eviction, O(n); here the policy keeps its
    candidates ordered and a victim costs O(log n).
    """

    def __init__(self, cache: Any, params: Any) -> None:
        super().__init__(cache, params)
        binding = current_binding()
        self.policy = binding.policy
        self.views = binding.views
        self._binding = binding
        self._recorder = binding.recorder
        self._victims = self.policy.next_victims(0, Tier.DEVICE)
        self._evict_s = 0.0
        self._cuts_victims = self.policy.cuts_victims
        self._pool_tokens = params.token_to_kv_pool_allocator.size
        # Of an eviction for an allocation: the tokens that must be free for it to fit.
        self.wanted_free_tokens: int | None = None
        # None: anything may go. Else a prefetch is making room, and this is what it may still take
        # of active cache, in tokens.
        self.active_allowance: int | None = None

    # ---- device eviction: a walk that the cache drives one node at a time ----

    def _evict_device_start(self, request_cnt: int) -> None:
        self._evict_device_request_cnt = request_cnt
        # The walk ends by the tracker, which counts what was really freed.
        self._victims = self.policy.next_victims(sys.maxsize, Tier.DEVICE)
        self._evict_s = 0.0

    def _evict_device_next_node(
        self,
        tracker: Any,
        device_frees: Any,
        host_frees: Any,
        cache_actions: Any,
    ) -> int | None:
        if tracker[self.component_type] >= self._evict_device_request_cnt:
            return None
        start_s = perf_counter()
        victim = next(self._victims, None)
        self._evict_s += perf_counter() - start_s
        if victim is None:
            return None
        if self._cuts_victims:
            self._spare_beginning(victim, tracker[self.component_type], cache_actions)
        if self.active_allowance is not None and not self._may_go(victim, self.active_allowance):
            return None
        return victim.node_id

    def _spare_beginning(self, victim: CacheNode, freed_tokens: int, cache_actions: Any) -> None:
        """Cut off what of ``victim`` may stay, as a node above it. The victim keeps its id."""
        if self.wanted_free_tokens is None:
            needed_tokens = self._evict_device_request_cnt - freed_tokens
        else:
            needed_tokens = self.wanted_free_tokens - self.cache.free_device_tokens()
        kept_tokens = self.policy.kept_tokens(
            victim,
            needed_tokens,
            pool_tokens=self._pool_tokens,
            page_size=self.tree_core.page_size,
        )
        if kept_tokens:
            node = self.tree_core.node_by_id(victim.node_id)
            _, action = self.tree_core._split_node(node.key, node, kept_tokens)
            if action is not None:
                cache_actions.append(action)

    def _may_go(self, victim: CacheNode, active_allowance: int) -> bool:
        if victim.retired and not victim.waiting:
            return True
        self.active_allowance = active_allowance - victim.num_tokens
        return self.active_allowance >= 0

    def _evict_device_end(self) -> None:
        self._victims.close()
        self._recorder.took("evict", self._evict_s)

    # ---- host eviction ----

    def drive_host_eviction(
        self,
        num_tokens: int,
        tracker: Any,
        device_frees: Any,
        host_frees: Any,
        cache_actions: Any,
    ) -> None:
        ct = self.component_type
        with closing(self.policy.next_victims(sys.maxsize, Tier.HOST)) as victims:
            while tracker[ct] < num_tokens and (victim := next(victims, None)) is not None:
                self.tree_core._evict_host_leaf(
                    victim.tree_node, tracker, device_frees, host_frees, cache_actions=cache_actions
                )

    # ---- what happens to a node's KV cache ----

    def evict_component(
        self,
        node: UnifiedTreeNode,
        device_frees: Any,
        host_frees: Any,
        cache_actions: Any,
        target: EvictLayer = EvictLayer.DEVICE,
    ) -> tuple[int, int]:
        view = self.views.of(node)
        reason = self.policy.explain(view)
        freed, host_freed = super().evict_component(
            node, device_frees, host_frees, cache_actions, target
        )
        if freed:
            self.policy.on_release(view, Tier.DEVICE)
            if self._binding.prefetch is not None:
                self._binding.prefetch.released(view)
            self._recorder.evicted(view, Tier.DEVICE, reason, freed)
        if host_freed:
            self.policy.on_release(view, Tier.HOST)
            self._recorder.evicted(view, Tier.HOST, EvictionReason.HOST, host_freed)
        return freed, host_freed

    def redistribute_on_node_split(
        self, new_parent: UnifiedTreeNode, child: UnifiedTreeNode
    ) -> None:
        super().redistribute_on_node_split(new_parent, child)
        parent_view, child_view = self.views.of(new_parent), self.views.of(child)
        self.policy.on_split(parent_view, child_view)
        if self._binding.prefetch is not None:
            self._binding.prefetch.split(parent_view, child_view)

    def commit_hicache_transfer(
        self, node: UnifiedTreeNode, phase: CacheTransferPhase, transfers: Any = (), **kwargs: Any
    ) -> None:
        super().commit_hicache_transfer(node, phase, transfers, **kwargs)
        if phase == CacheTransferPhase.BACKUP_HOST and node.backuped:
            self.policy.on_store(self.views.of(node), Tier.HOST)
        elif phase == CacheTransferPhase.LOAD_BACK:
            for transfer in transfers or ():
                for node_id in transfer.nodes_to_load or ():
                    loaded = self.tree_core.node_by_id(node_id)
                    if not loaded.evicted:
                        self.policy.on_store(self.views.of(loaded), Tier.DEVICE)
