"""A radix tree of KV cache without tensors: two tiers, leaf-first eviction, locks.

It does what SGLang's tree with HiCache in write-through mode does to its nodes, and tells the same
policy object the same things. A backup to the host is taken for instant.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing

from pbkv.policy import EvictionPolicy, EvictionReason, Tier
from pbkv.sim.node import Match, TreeNode, common_end

_STEP = 1e-5
"""What a node's access is older than that of its child, on one path: leaves go first anyway, but
two paths that were accessed together must not interleave."""


class SimulatedTree:
    """The tree and the accounts of both tiers, in tokens.

    Invariants, see :mod:`pbkv.sim.integrity`: a node on the device has its parent there, a node on
    the host has its parent on the host; locks of a parent are at least those of its children;
    candidates are exactly the unlocked leaves of each tier.
    """

    def __init__(
        self, policy: EvictionPolicy, *, page_size: int, device_tokens: int, host_tokens: int
    ) -> None:
        self.policy = policy
        self.page_size = page_size
        self.device_tokens = device_tokens
        self.host_tokens = host_tokens
        self.root = TreeNode(0, None, [], 0)
        self.root.on_device = self.root.on_host = True
        self.root.locks = 1
        self.stored_device = 0
        self.stored_host = 0
        self.evictable = 0
        self.private = 0
        """Tokens of the device that requests hold outside the tree."""
        self.evicted = dict.fromkeys(EvictionReason, 0)
        self.num_nodes = 0
        self._next_id = 1
        self._clock = 0.0

    @property
    def free_tokens(self) -> int:
        """Tokens of the device that nothing occupies."""
        return self.device_tokens - self.stored_device - self.private

    # ---- looking ----

    def match(self, ids: Sequence[int], limit: int) -> Match:
        """Find the first ``limit`` pages of a prompt. Changes nothing."""
        node = device_end = self.root
        first_host: TreeNode | None = None
        next_id: int | None = None
        position = device_pages = 0
        while position < limit:
            next_id = ids[position]
            child = node.children.get(next_id)
            if child is None:
                break
            next_id = None
            end = child.end
            if end > limit or ids[end - 1] != child.last_id:
                end = common_end(child, ids, limit)
            if child.on_device:
                device_end, device_pages = child, end
            elif first_host is None:
                first_host = child
            node, position = child, end
            if end < child.end:
                break
        return Match(device_pages, position, device_end, node, node.start, first_host, next_id)

    def settle(self, match: Match) -> None:
        """Cut the last node of a match so that the match ends at a node's end."""
        end = match.end
        if end.end > match.matched_pages:
            upper = self._split(end, match.matched_pages)
            if match.device_end is end:
                match.device_end = upper
            if match.first_host is end:
                match.first_host = upper
            match.end = upper
            match.end_start = upper.start

    def touch(self, node: TreeNode) -> None:
        """``node`` and all above it were accessed."""
        self._clock = now = self._clock + 1.0
        root = self.root
        while node is not root:
            node.last_access_s = now
            now -= _STEP
            node = node.parent  # type: ignore[assignment]

    def path(self, node: TreeNode) -> list[TreeNode]:
        """``node`` and all above it, without the root, the deepest first."""
        path = []
        root = self.root
        while node is not root:
            path.append(node)
            node = node.parent  # type: ignore[assignment]
        return path

    def nodes(self) -> Iterator[TreeNode]:
        """All nodes but the root."""
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    # ---- locks ----

    def lock(self, node: TreeNode) -> None:
        """Keep ``node`` and all above it on the device."""
        root = self.root
        while node is not root:
            node.locks += 1
            if node.locks == 1:
                node.locked = True
                if node.on_device:
                    self.evictable -= node.num_tokens
                if node.leaf_candidate or node.host_candidate:
                    self._update_candidate(node)
            node = node.parent  # type: ignore[assignment]

    def unlock(self, node: TreeNode) -> None:
        root = self.root
        while node is not root:
            node.locks -= 1
            if node.locks == 0:
                node.locked = False
                if node.on_device:
                    self.evictable += node.num_tokens
                self._update_candidate(node)
            node = node.parent  # type: ignore[assignment]

    # ---- storing ----

    def insert(self, ids: Sequence[int], limit: int, below: TreeNode) -> TreeNode:
        """Store pages of a prompt on the device, from the end of ``below``, which is on its path
        and on the device, to page ``limit``. The caller holds them as private tokens.

        Answers the node of the last page.
        """
        node = below
        position = below.end
        while position < limit:
            child = node.children.get(ids[position])
            if child is None:
                child = self._add(node, list(ids[position:limit]), position)
                self._store_device(child)
            else:
                end = child.end
                if end > limit or ids[end - 1] != child.last_id:
                    child = self._split(child, common_end(child, ids, limit))
                if not child.on_device:
                    self._store_device(child)
            if not child.on_host and self.host_tokens:
                self._backup(child)
            node, position = child, child.end
        return node

    def load_back(self, node: TreeNode) -> int:
        """Bring ``node`` and all above it from the host to the device; the caller made room.

        Answers the tokens that were loaded.
        """
        missing = []
        while not node.on_device:
            missing.append(node)
            node = node.parent  # type: ignore[assignment]
        for loaded in reversed(missing):
            self._store_device(loaded)
        return sum(loaded.num_tokens for loaded in missing)

    # ---- evicting ----

    def make_room(self, num_tokens: int, active_allowance: int | None = None) -> bool:
        """Evict until ``num_tokens`` of the device are free; whether they are.

        ``active_allowance`` bounds what may go of active cache, in tokens; None is no bound.
        """
        needed = num_tokens - self.free_tokens
        if needed <= 0:
            return True
        with closing(self.policy.next_victims(sys.maxsize, Tier.DEVICE)) as victims:
            while needed > 0:
                victim = next(victims, None)
                if victim is None:
                    return False
                kept_tokens = self.policy.kept_tokens(
                    victim, needed, pool_tokens=self.device_tokens, page_size=self.page_size
                )
                if kept_tokens:
                    self._split(victim, victim.start + kept_tokens // self.page_size)  # type: ignore[arg-type,attr-defined]
                if active_allowance is not None and (not victim.retired or victim.waiting):
                    active_allowance -= victim.num_tokens
                    if active_allowance < 0:
                        return False
                needed -= victim.num_tokens
                self._evict_device(victim)  # type: ignore[arg-type]
        return True

    def _evict_device(self, node: TreeNode) -> None:
        policy = self.policy
        self.evicted[policy.explain(node)] += node.num_tokens
        node.on_device = False
        self.stored_device -= node.num_tokens
        self.evictable -= node.num_tokens
        policy.on_release(node, Tier.DEVICE)
        parent: TreeNode = node.parent  # type: ignore[assignment]
        parent.device_children -= 1
        self._update_candidate(node)
        if not node.on_host:
            self._remove(node)
        if not parent.device_children:
            self._update_candidate(parent)

    def _evict_host(self, node: TreeNode) -> None:
        self.evicted[EvictionReason.HOST] += node.num_tokens
        node.on_host = False
        self.stored_host -= node.num_tokens
        self.policy.on_release(node, Tier.HOST)
        parent: TreeNode = node.parent  # type: ignore[assignment]
        parent.host_children -= 1
        self._update_candidate(node)
        self._remove(node)
        if not parent.host_children:
            self._update_candidate(parent)

    # ---- one node ----

    def _add(self, parent: TreeNode, ids: list[int], start: int) -> TreeNode:
        node = TreeNode(self._next_id, parent, ids, start)
        self._next_id += 1
        self.num_nodes += 1
        node.num_tokens = len(ids) * self.page_size
        self._clock += 1.0
        node.last_access_s = self._clock
        parent.children[ids[0]] = node
        return node

    def _remove(self, node: TreeNode) -> None:
        parent: TreeNode = node.parent  # type: ignore[assignment]
        del parent.children[node.ids[0]]
        node.alive = False
        self.num_nodes -= 1
        self.policy.on_remove(node)

    def _store_device(self, node: TreeNode) -> None:
        node.on_device = True
        self.stored_device += node.num_tokens
        if not node.locks:
            self.evictable += node.num_tokens
        parent: TreeNode = node.parent  # type: ignore[assignment]
        parent.device_children += 1
        self.policy.on_store(node, Tier.DEVICE)
        self._update_candidate(node)
        if parent.leaf_candidate:
            self._update_candidate(parent)

    def _backup(self, node: TreeNode) -> None:
        """Copy ``node`` to the host, before it what is missing of its path; the first that finds no
        room ends it, as in the engine."""
        missing = []
        while not node.on_host and node is not self.root:
            missing.append(node)
            node = node.parent  # type: ignore[assignment]
        for each in reversed(missing):
            if not self._make_room_on_host(each.num_tokens):
                return
            self._store_host(each)

    def _make_room_on_host(self, num_tokens: int) -> bool:
        """Evict from the host until ``num_tokens`` are free there; what went, went, if they are
        not."""
        needed = self.stored_host + num_tokens - self.host_tokens
        if needed > 0:
            # Candidates are not on the device, and what is being copied is: its path stays.
            with closing(self.policy.next_victims(sys.maxsize, Tier.HOST)) as victims:
                while needed > 0 and (victim := next(victims, None)) is not None:
                    needed -= victim.num_tokens
                    self._evict_host(victim)  # type: ignore[arg-type]
        return needed <= 0

    def _store_host(self, node: TreeNode) -> None:
        node.on_host = node.backed_up = True
        self.stored_host += node.num_tokens
        parent: TreeNode = node.parent  # type: ignore[assignment]
        parent.host_children += 1
        self.policy.on_store(node, Tier.HOST)
        if parent.host_candidate:
            self._update_candidate(parent)

    def _split(self, node: TreeNode, at: int) -> TreeNode:
        """Cut ``node`` before page ``at``; answers the new node above the cut."""
        count = at - node.start
        parent: TreeNode = node.parent  # type: ignore[assignment]
        upper = self._add(parent, node.ids[:count], node.start)
        # As in the engine, the part below the cut counts as accessed by it.
        self._clock += 1.0
        node.last_access_s = self._clock
        upper.on_device, upper.on_host = node.on_device, node.on_host
        upper.backed_up = node.backed_up
        upper.locks, upper.locked = node.locks, node.locked
        upper.device_children, upper.host_children = int(node.on_device), int(node.on_host)
        node.ids = node.ids[count:]
        node.start = at
        node.num_tokens = len(node.ids) * self.page_size
        node.parent, node.parent_id = upper, upper.node_id
        upper.children[node.ids[0]] = node
        self.policy.on_split(upper, node)
        self._update_candidate(upper)
        self._update_candidate(node)
        return upper

    def _update_candidate(self, node: TreeNode) -> None:
        """Tell the policy whether ``node`` may be evicted from either tier now."""
        if node is self.root:
            return
        free = not node.locks
        device = node.on_device and free and not node.device_children
        if device != node.leaf_candidate:
            node.leaf_candidate = device
            if device:
                self.policy.add_candidate(node, Tier.DEVICE)
            else:
                self.policy.drop_candidate(node, Tier.DEVICE)
        host = node.on_host and free and not node.on_device and not node.host_children
        if host != node.host_candidate:
            node.host_candidate = host
            if host:
                self.policy.add_candidate(node, Tier.HOST)
            else:
                self.policy.drop_candidate(node, Tier.HOST)
