"""The policy's view of the engine's radix-tree nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pbkv.policy.node import CacheNode

if TYPE_CHECKING:
    from sglang.srt.mem_cache.unified_cache.unified_tree_core import UnifiedTreeNode


class TreeNodeView(CacheNode):
    """A :class:`CacheNode` that reads its facts from the tree, so that they are never stale."""

    __slots__ = ("tree_node",)

    def __init__(self, tree_node: UnifiedTreeNode) -> None:
        self.tree_node = tree_node
        self.node_id = tree_node.id
        self.reset_accesses()

    @property
    def parent_id(self) -> int | None:
        parent = self.tree_node.parent
        return None if parent is None else parent.id

    @property
    def num_tokens(self) -> int:
        return len(self.tree_node.key)

    @property
    def last_access_s(self) -> float:
        """The tree's logical access counter: the same on every rank, unlike a clock."""
        return self.tree_node.last_access_time

    @property
    def locked(self) -> bool:
        return any(data.lock_ref > 0 for data in self.tree_node.component_data)

    @property
    def backed_up(self) -> bool:
        return self.tree_node.backuped


class NodeViews:
    """One view per tree node, in a side table of the plug-in's own: the tree stays stock."""

    def __init__(self) -> None:
        self._views: dict[int, TreeNodeView] = {}

    def __len__(self) -> int:
        return len(self._views)

    def of(self, tree_node: UnifiedTreeNode) -> TreeNodeView:
        view = self._views.get(tree_node.id)
        if view is None:
            view = self._views[tree_node.id] = TreeNodeView(tree_node)
        return view

    def known(self, tree_node: UnifiedTreeNode) -> TreeNodeView | None:
        """The view of a node that is in the tree, None of the root and of one that left."""
        view = self._views.get(tree_node.id)
        return view if view is not None and view.tree_node is tree_node else None

    def __iter__(self) -> Iterator[TreeNodeView]:
        return iter(self._views.values())

    def pop(self, tree_node: UnifiedTreeNode) -> TreeNodeView | None:
        return self._views.pop(tree_node.id, None)

    def clear(self) -> None:
        self._views.clear()
