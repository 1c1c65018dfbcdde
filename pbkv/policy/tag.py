"""What nodes that were accessed alike have in common, so that a forecast moves them all at once.

A workflow leaves many nodes and few combinations of agents that accessed them. Nodes of one
workflow, of the same agents and with equally many requests waiting for them have the same Score(c),
the same Value(c) and retire together: they share one :class:`Tag`. Nodes of several workflows, few
and near the root, have one each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_Key = tuple[str, frozenset[str], int]
"""Workflow ("" for none), its agents, waiting requests: what a shared tag is looked up by."""

TagListener = Callable[["Tag", str, frozenset[str] | None], None]
"""Hears that ``tag.accesses[workflow_id]``, until now the third argument, is larger now."""


class Tag:
    """Facts that hold for every node of the tag.

    * ``accesses``: workflow id -> the agents of it that accessed the node, for every workflow still
      remembered, active or retired. The agent sets are immutable.
    * ``active_workflows``: how many of those workflows are active.
    * ``forgotten_workflows``: how many accessed the node and are no longer remembered.
    * ``score``: the part of Score(c) that forecasts give, of a policy that uses them.
    * ``waiting``: how many requests in the engine's queue will read the node.

    ``key`` is None for a tag that no further node can come to share by being accessed.
    """

    __slots__ = (
        "accesses",
        "active_workflows",
        "forgotten_workflows",
        "key",
        "num_nodes",
        "score",
        "waiting",
    )

    def __init__(self, key: _Key | None = None, waiting: int = 0) -> None:
        self.accesses: dict[str, frozenset[str]] = {}
        self.active_workflows = 0
        self.forgotten_workflows = 0
        self.key = key
        self.num_nodes = 0
        self.score = 0.0
        self.waiting = waiting

    @property
    def retired(self) -> bool:
        """No active workflow accessed the nodes (paper 4.2.1)."""
        return self.active_workflows == 0

    @property
    def num_workflows(self) -> int:
        """How many workflows ever accessed the nodes."""
        return len(self.accesses) + self.forgotten_workflows


_NO_AGENTS: frozenset[str] = frozenset()
UNTAGGED = Tag(("", _NO_AGENTS, 0))
"""Of a node that no known workflow accessed and no request waits for. Shared by all policies, so
nothing of it ever changes, and its nodes are not counted."""


class TagTable:
    """The tags of one policy's nodes.

    ``accessed`` and ``queued`` answer which tag a node has next. That is the old one, changed in
    place, where no other node shares it; the caller moves the node otherwise (:meth:`moved`).
    """

    def __init__(self, is_active: Callable[[str], bool]) -> None:
        self._is_active = is_active
        self.listener: TagListener | None = None
        self._shared: dict[_Key, Tag] = {}
        self._of: dict[str, dict[Tag, None]] = {}

    def of(self, workflow_id: str) -> Collection[Tag]:
        """The tags of the nodes that a workflow accessed, in the order they came up."""
        return self._of.get(workflow_id, {}).keys()

    def accessed(self, tag: Tag, workflow_id: str, agents: frozenset[str]) -> Tag:
        """The tag of a node of ``tag`` once ``agents`` are those of the workflow that accessed it,
        more than before."""
        accesses = tag.accesses
        if tag.key is not None and (not accesses or workflow_id in accesses):
            return self._find((workflow_id, agents, tag.waiting))
        own = self._own(tag)
        before = own.accesses.get(workflow_id)
        own.accesses[workflow_id] = agents
        if before is None:
            own.active_workflows += self._is_active(workflow_id)
            self._register(own, workflow_id)
        if self.listener is not None:
            self.listener(own, workflow_id, before)
        return own

    def queued(self, tag: Tag, requests: int) -> Tag:
        """The tag of a node of ``tag`` that ``requests`` more wait for, fewer if negative."""
        waiting = max(0, tag.waiting + requests)
        if tag.key is not None:
            workflow_id, agents, _ = tag.key
            return self._find((workflow_id, agents, waiting))
        own = self._own(tag)
        own.waiting = waiting
        return own

    def moved(self, old: Tag, new: Tag) -> bool:
        """A node of ``old`` is now one of ``new``. Whether ``old`` has no node any more."""
        if new is not UNTAGGED:
            new.num_nodes += 1
        if old is UNTAGGED:
            return False
        old.num_nodes -= 1
        if old.num_nodes:
            return False
        if old.key is not None:
            del self._shared[old.key]
        for workflow_id in old.accesses:
            self._unregister(old, workflow_id)
        return True

    def forget(self, workflow_id: str) -> Collection[Tag]:
        """The workflow is no longer remembered: its tags count it only. Returns them."""
        tags = self._of.pop(workflow_id, {})
        for tag in tags:
            if tag.key is not None:
                del self._shared[tag.key]
                tag.key = None
            del tag.accesses[workflow_id]
            tag.forgotten_workflows += 1
        return tags.keys()

    def clear(self) -> None:
        self._shared.clear()
        self._of.clear()

    def _find(self, key: _Key) -> Tag:
        if key == UNTAGGED.key:
            return UNTAGGED
        tag = self._shared.get(key)
        if tag is None:
            workflow_id, agents, waiting = key
            tag = self._shared[key] = Tag(key, waiting)
            if agents:
                tag.accesses[workflow_id] = agents
                tag.active_workflows = int(self._is_active(workflow_id))
                self._register(tag, workflow_id)
                if self.listener is not None:
                    self.listener(tag, workflow_id, None)
        return tag

    def _own(self, tag: Tag) -> Tag:
        """``tag``, or a copy of it where other nodes would change with it."""
        if tag.key is None and tag.num_nodes == 1:
            return tag
        own = Tag(waiting=tag.waiting)
        own.accesses = dict(tag.accesses)
        own.active_workflows = tag.active_workflows
        own.forgotten_workflows = tag.forgotten_workflows
        own.score = tag.score
        for workflow_id in own.accesses:
            self._register(own, workflow_id)
        return own

    def _register(self, tag: Tag, workflow_id: str) -> None:
        self._of.setdefault(workflow_id, {})[tag] = None

    def _unregister(self, tag: Tag, workflow_id: str) -> None:
        tags = self._of[workflow_id]
        del tags[tag]
        if not tags:
            del self._of[workflow_id]
