"""Finds where a prompt is cached, by a walk down the tree that changes nothing.

Stock's own match splits nodes and counts as an access, so asking would disturb what it asks about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sglang.srt.mem_cache.radix_cache import RadixKey

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.unified_cache.unified_tree_core import UnifiedTreeNode

    from pbkv.sglang.tree import PolicyTreeCore
    from pbkv.sglang.views import NodeViews


@dataclass(frozen=True, slots=True)
class PromptMatch:
    """Where a walk ended.

    ``end`` is the deepest node of the path, of which perhaps only a part matched, ``device_end``
    the deepest one on the device, ``first_host`` the node below that, None without one.
    ``next_key`` is the child that would continue the path, None where none can.
    """

    end: UnifiedTreeNode
    end_tokens: int
    device_end: UnifiedTreeNode
    first_host: UnifiedTreeNode | None
    next_key: Any
    device_tokens: int
    matched_tokens: int


class TreeWalk:
    """Walks one tree."""

    def __init__(self, tree: PolicyTreeCore, views: NodeViews) -> None:
        self._tree = tree
        self._views = views

    def key(self, req: Req) -> RadixKey:
        """What stock looks up when it admits the request: all but the last token, whole pages."""
        tokens = req.origin_input_ids + req.output_ids
        limit = 0 if req.positional_embed_overrides is not None else max(0, len(tokens) - 1)
        key = RadixKey(tokens, req.extra_key, limit=limit, cache_salt=req.cache_salt)
        key, _ = key.maybe_to_bigram_view(self._tree.is_eagle)
        return key[: len(key) // self._tree.page_size * self._tree.page_size]

    def match(self, key: RadixKey) -> PromptMatch:
        page = self._tree.page_size
        node = device_end = self._tree.root_node
        first_host: UnifiedTreeNode | None = None
        next_key: Any = None
        matched_tokens = device_tokens = 0
        while matched_tokens + page <= len(key):
            next_key = key.child_key_at(matched_tokens, page)
            child = node.children.get(next_key)
            if child is None or (child.evicted and not child.backuped):
                break
            tokens = child.key.match_at(key, matched_tokens, page_size=page)
            if first_host is None and child.evicted:
                first_host = child
            if first_host is None:
                device_end = child
                device_tokens += tokens
            node = child
            matched_tokens += tokens
            next_key = None
            if tokens < len(child.key):
                break
        return PromptMatch(
            end=node,
            end_tokens=0 if node is self._tree.root_node else len(node.key),
            device_end=device_end,
            first_host=first_host,
            next_key=next_key,
            device_tokens=device_tokens,
            matched_tokens=matched_tokens,
        )

    def outdated(self, match: PromptMatch) -> bool:
        """Whether a new walk would end elsewhere, in O(1).

        Leaves go first, and nodes are split and added in place: what happens to a path shows at
        its end.
        """
        end, root = match.end, self._tree.root_node
        if end is not root and (
            self._views.known(end) is None
            or len(end.key) != match.end_tokens
            or (end.evicted and not end.backuped)
        ):
            return True
        if match.device_end.evicted:
            return True
        first_host = match.first_host
        if first_host is not None and (
            not first_host.evicted
            # It was split, and what was cut off above it may have been loaded without it.
            or first_host.parent is not match.device_end
        ):
            return True
        if match.next_key is None:
            return False
        child = end.children.get(match.next_key)
        return child is not None and not (child.evicted and not child.backuped)
