"""What a policy sees of one node of the engine's radix tree."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    """Where KV cache lives."""

    DEVICE = "device"
    HOST = "host"


class CacheNode:
    """One radix-tree node, as the policy sees it.

    The engine (or the simulator) owns the tree and makes one of these per node, usually as a
    subclass whose ``num_tokens``, ``last_access_s``, ``locked`` and ``backed_up`` read the tree.
    The other fields belong to the policy:

    * ``accesses``: workflow id -> the agents of it that accessed the node, for every workflow still
      remembered, active or retired. The agent sets are shared between nodes and immutable.
    * ``active_workflows``: how many of those workflows are active.
    * ``forgotten_workflows``: how many accessed the node and are no longer remembered.
    * ``score``: the part of Score(c) that forecasts give, of a policy that uses them.
    * ``waiting``: how many requests in the engine's queue will read the node.

    ``last_access_s`` may be any clock that grows with every access; the engine uses its tree's
    logical counter, which is the same on every tensor-parallel rank.
    """

    __slots__ = (
        "accesses",
        "active_workflows",
        "backed_up",
        "forgotten_workflows",
        "last_access_s",
        "locked",
        "node_id",
        "num_tokens",
        "parent_id",
        "score",
        "waiting",
    )

    node_id: int
    parent_id: int | None
    num_tokens: int
    last_access_s: float
    locked: bool
    backed_up: bool
    accesses: dict[str, frozenset[str]]
    active_workflows: int
    forgotten_workflows: int
    score: float
    waiting: int

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
        """Start the policy's fields empty."""
        self.accesses = {}
        self.active_workflows = 0
        self.forgotten_workflows = 0
        self.score = 0.0
        self.waiting = 0

    @property
    def retired(self) -> bool:
        """No active workflow accessed the node (paper 4.2.1).

        A node that no known workflow accessed, such as one of a request without identity, has
        nobody who would come back to it and counts as retired.
        """
        return self.active_workflows == 0

    @property
    def num_workflows(self) -> int:
        """How many workflows ever accessed the node."""
        return len(self.accesses) + self.forgotten_workflows
