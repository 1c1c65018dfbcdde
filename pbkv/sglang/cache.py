"""SGLang's radix cache, telling an eviction policy which invocation used which nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

from pbkv.events import EventKind, WorkflowEvent
from pbkv.sglang.binding import current_binding
from pbkv.sglang.requests import invocation_of

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams

    from pbkv.invocation import Invocation
    from pbkv.sglang.tree import PolicyTreeCore


class PolicyRadixCache(UnifiedRadixCache):
    """Stock cache; adds access tags when a request's KV cache enters the tree, and its end."""

    tree_core: PolicyTreeCore

    def __init__(self, params: CacheInitParams) -> None:
        self.binding = current_binding()
        super().__init__(params)

    def checkpoint_into_tree(self, req: Req, *, up_to: int, **kwargs: Any) -> None:
        super().checkpoint_into_tree(req, up_to=up_to, **kwargs)
        invocation = invocation_of(req, self.binding)
        if invocation is not None and not self.disable and req.last_node is not None:
            self._tag_path(req.last_node, invocation)

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

    def _tag_path(self, last_node: int, invocation: Invocation) -> None:
        """Tag the nodes from ``last_node`` up to the root.

        A node that already has this workflow's agent ends the walk: whatever tagged it tagged
        its ancestors too, splits copy tags, and a node outlives its descendants.
        """
        root = self.tree_core.root_node
        node = self.tree_core.node_by_id(last_node)
        policy, views = self.binding.policy, self.binding.views
        while node is not None and node is not root:
            view = views.of(node)
            if invocation.agent in view.accesses.get(invocation.workflow_id, ()):
                return
            policy.on_access(view, invocation)
            node = node.parent


def full_component_of(cache: PolicyRadixCache) -> Any:
    """The component that evicts, for tests and inspection."""
    return cache.components[ComponentType.FULL]
