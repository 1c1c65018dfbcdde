"""SGLang's radix cache, telling an eviction policy which invocation used which nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sglang.srt.mem_cache.unified_cache.components import BASE_COMPONENT_TYPE
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

from pbkv.events import EventKind, WorkflowEvent
from pbkv.sglang.binding import current_binding
from pbkv.sglang.queueing import WaitingRequests
from pbkv.sglang.requests import invocation_of

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.base_prefix_cache import EvictParams
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams

    from pbkv.sglang.tree import PolicyTreeCore
    from pbkv.sglang.views import TreeNodeView


class PolicyRadixCache(UnifiedRadixCache):
    """Stock cache; adds access tags when a request's KV cache enters the tree, and its end."""

    tree_core: PolicyTreeCore

    def __init__(self, params: CacheInitParams) -> None:
        self.binding = current_binding()
        super().__init__(params)
        self.binding.waiting = WaitingRequests(self.tree_core, self.binding)

    def checkpoint_into_tree(self, req: Req, *, up_to: int, **kwargs: Any) -> None:
        super().checkpoint_into_tree(req, up_to=up_to, **kwargs)
        invocation = invocation_of(req, self.binding)
        if invocation is None or self.disable or req.last_node is None:
            return
        path = self._path(req.last_node)
        prefetch = self.binding.prefetch
        if prefetch is not None:
            prefetch.used(path)
            if not req.finished():
                prefetch.inserted()
        if req.finished():
            self.binding.policy.on_call_finished(path, invocation)
        else:
            self.binding.policy.on_path(path, invocation)

    def on_release(self, req: Req, *, checkpointed: bool) -> None:
        super().on_release(req, checkpointed=checkpointed)
        if not req.finished():
            return
        invocation = invocation_of(req, self.binding)
        self.binding.recorder.finished(
            "none" if invocation is None else invocation.agent,
            len(req.origin_input_ids),
            req.cached_tokens_device,
            req.cached_tokens_host,
        )
        if invocation is not None and invocation.end:
            self.binding.policy.on_event(
                WorkflowEvent(
                    kind=EventKind.TERMINATE,
                    workflow_id=invocation.workflow_id,
                    at_s=self.binding.now_s,
                    agent=invocation.agent,
                    seq=invocation.seq,
                )
            )

    def _reset_full(self) -> None:
        super()._reset_full()
        if self.binding.prefetch is not None:
            self.binding.prefetch.clear()

    def free_device_tokens(self) -> int:
        """Tokens of the device pool that nothing occupies."""
        return self._component_available_size(BASE_COMPONENT_TYPE)

    def device_capacity_tokens(self) -> int:
        """Size of the device pool, in tokens."""
        return self.token_to_kv_pool_allocator.size

    def loads_are_synchronous(self) -> bool:
        """Whether a load is complete when it was started, as on a CPU."""
        return str(self.tree_core.device).startswith("cpu")

    def evict_for_alloc(self, params: EvictParams, **kwargs: Any) -> Any:
        # What the walk is asked for is all there is; it is stopped when the allocation fits. Only
        # here is known how much that takes.
        full = self.components[BASE_COMPONENT_TYPE]
        full.wanted_free_tokens = self.free_device_tokens() + params.num_tokens
        try:
            return super().evict_for_alloc(params, **kwargs)
        finally:
            full.wanted_free_tokens = None

    @contextmanager
    def evicting_at_most_active(self, num_tokens: int) -> Iterator[None]:
        """Within it, eviction takes retired cache, and of active cache at most ``num_tokens``."""
        full = self.components[BASE_COMPONENT_TYPE]
        full.active_allowance = num_tokens
        try:
            yield
        finally:
            full.active_allowance = None

    def _path(self, last_node: int) -> list[TreeNodeView]:
        """Views of the nodes from ``last_node`` up to, not including, the root."""
        root = self.tree_core.root_node
        views = self.binding.views
        path = []
        node = self.tree_core.node_by_id(last_node)
        while node is not None and node is not root:
            path.append(views.of(node))
            node = node.parent
        return path
