"""What a policy sees of one node of the engine's radix tree."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pbkv.policy.tag import UNTAGGED, Tag


class Tier(StrEnum):
    """Where KV cache lives."""

    DEVICE = "device"
    HOST = "host"


class CacheNode:
    """One radix-tree node, as the policy sees it.

    The engine (or the simulator) owns the tree and makes one of these per node, usually as a
    subclass whose ``num_tokens``, ``last_access_s``, ``locked`` and ``backed_up`` read the tree.
    ``tag`` belongs to the policy; the properties below read it. Many nodes share one.

    ``last_access_s`` may be any clock that grows with every access; the engine uses its tree's
    logical counter, which is the same on every tensor-parallel rank.
    """

    __slots__ = (
        "backed_up",
        "last_access_s",
        "locked",
        "node_id",
        "num_tokens",
        "parent_id",
        "tag",
    )

    node_id: int
    parent_id: int | None
    num_tokens: int
    last_access_s: float
    locked: bool
    backed_up: bool
    tag: Tag

    def __init__(
        self,
        node_id: int,
        parent_id: int | None = None,
        num_tokens: int = 0,
        last_access_s: float = 0.0,
    ) -> None:
        self.node_id = node_id
        self.parent_id = parent_id
        self.num_tokens = num_tokens
        self.last_access_s = last_access_s
        self.locked = False
        self.backed_up = False
        self.reset_accesses()

    def reset_accesses(self) -> None:
        """Nobody accessed the node yet."""
        self.tag = UNTAGGED

    @property
    def accesses(self) -> Mapping[str, frozenset[str]]:
        """Workflow id -> the agents of it that accessed the node, see :class:`Tag`."""
        return self.tag.accesses

    @property
    def active_workflows(self) -> int:
        """How many active workflows accessed the node."""
        return self.tag.active_workflows

    @property
    def forgotten_workflows(self) -> int:
        """How many workflows accessed the node and are no longer remembered."""
        return self.tag.forgotten_workflows

    @property
    def score(self) -> float:
        """The part of Score(c) that forecasts give, of a policy that uses them."""
        return self.tag.score

    @property
    def waiting(self) -> int:
        """How many requests in the engine's queue will read the node."""
        return self.tag.waiting

    @property
    def retired(self) -> bool:
        """No active workflow accessed the node (paper 4.2.1).

        A node that no known workflow accessed, such as one of a request without identity, has
        nobody who would come back to it and counts as retired.
        """
        return self.tag.active_workflows == 0

    @property
    def num_workflows(self) -> int:
        """How many workflows ever accessed the node."""
        return self.tag.num_workflows
