"""A node of the simulated tree, and what a walk down the tree found of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pbkv.policy import CacheNode


class TreeNode(CacheNode):
    """A node: pages ``start`` to ``end`` of every prompt that passes through it."""

    __slots__ = (
        "alive",
        "children",
        "device_children",
        "end",
        "host_candidate",
        "host_children",
        "ids",
        "last_id",
        "leaf_candidate",
        "locks",
        "on_device",
        "on_host",
        "parent",
        "start",
    )

    def __init__(self, node_id: int, parent: TreeNode | None, ids: list[int], start: int) -> None:
        super().__init__(node_id, None if parent is None else parent.node_id)
        self.parent = parent
        self.ids = ids
        self.start = start
        self.end = start + len(ids)
        self.last_id = ids[-1] if ids else 0
        self.children: dict[int, TreeNode] = {}
        self.device_children = 0
        self.host_children = 0
        self.on_device = False
        self.on_host = False
        self.locks = 0
        self.alive = True
        self.leaf_candidate = False
        self.host_candidate = False


@dataclass(slots=True)
class Match:
    """What of a prompt is in the tree. Counts are pages.

    ``end`` is the deepest matched node, ``device_end`` the deepest on the device; ``first_host``
    is the one after it. The last four fields tell when the match is outdated.
    """

    device_pages: int
    matched_pages: int
    device_end: TreeNode
    end: TreeNode
    end_start: int
    first_host: TreeNode | None
    next_id: int | None

    @property
    def host_pages(self) -> int:
        return self.matched_pages - self.device_pages

    def outdated(self) -> bool:
        """Whether a new walk could end elsewhere, in O(1): leaves go first and nodes grow at their
        end, so what happens to a path shows there."""
        end = self.end
        if not end.alive or end.start != self.end_start or not self.device_end.on_device:
            return True
        if self.first_host is not None and self.first_host.on_device:
            return True
        return self.next_id is not None and self.next_id in end.children


def common_end(node: TreeNode, ids: Sequence[int], limit: int) -> int:
    """The page up to which a prompt agrees with ``node``, whose first page it shares.

    Ids name whole prefixes: where they differ once they differ from there on.
    """
    low, high = node.start + 1, min(node.end, limit, len(ids))
    while low < high:
        middle = (low + high + 1) // 2
        if node.ids[middle - 1 - node.start] == ids[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
