"""The eviction policy interface, and the bookkeeping that every policy shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import ClassVar, Protocol

from pbkv.events import WorkflowEvent
from pbkv.forecast import Forecast
from pbkv.invocation import Invocation
from pbkv.policy.eviction_unit import EvictionUnit
from pbkv.policy.index import EvictionIndex, Place, Rank
from pbkv.policy.node import CacheNode, Tier
from pbkv.policy.tag import UNTAGGED, Tag, TagTable
from pbkv.settings import PolicySettings
from pbkv.workflow import Transition, WorkflowPhase, WorkflowRegistry


class EvictionReason(StrEnum):
    """Why a node was chosen. ``HOST`` is for every removal from the host tier."""

    RETIRED = "retired"
    SCORE = "score"
    RECENCY = "recency"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class PrefetchBudget:
    """Room for one prefetch, in tokens (paper 4.3).

    S_a = ``free_tokens`` + ``retired_tokens`` of device space, S_bw = ``bandwidth_tokens``.
    """

    free_tokens: int
    retired_tokens: int
    bandwidth_tokens: int

    @property
    def tokens(self) -> int:
        """S = min(S_a, S_bw)."""
        return min(self.free_tokens + self.retired_tokens, self.bandwidth_tokens)


class Prefetcher(Protocol):
    """Chooses host nodes to load onto the device before a request asks for them."""

    def plan(self, budget: PrefetchBudget) -> list[CacheNode]:
        """Nodes to load, parents before children, within ``budget.tokens``."""
        ...


class EvictionPolicy(ABC):
    """Orders the evictable nodes of both tiers.

    The host of the policy (the engine plug-in or the simulator) owns the radix tree and reports
    what happens to it; the policy owns which workflow accessed what, and answers which nodes go
    next. Nothing here reads a clock, draws a random number or does I/O, so that all ranks of one
    engine, given the same calls, give the same answers.

    A concrete policy defines :meth:`rank` and :meth:`explain`; everything else is shared. What it
    ranks are tags, for nodes that were accessed alike are equally worth keeping; equal ranks go by
    recency.
    """

    name: ClassVar[str]
    uses_forecasts: ClassVar[bool] = False
    """Whether forecasts change the order. An engine makes none for a policy that ignores them."""

    def __init__(self, settings: PolicySettings) -> None:
        self.settings = settings
        self._unit = EvictionUnit.of(settings.eviction_unit)
        self.workflows = WorkflowRegistry(
            idle_timeout_s=settings.idle_timeout_s,
            max_active=settings.max_workflows,
            max_retired=settings.max_retired_workflows,
        )
        self._tags = TagTable(self.workflows.is_active)
        self._index = {tier: self._new_index() for tier in Tier}
        # All that follows the nodes' tags.
        self._indexes = list(self._index.values())
        # Candidates that the walk in progress passed over; they return to the index at its end.
        self._stuck: dict[Tier, dict[int, CacheNode]] = {tier: {} for tier in Tier}
        self._nodes_of: dict[str, dict[int, CacheNode]] = {}
        self._stored_tokens = dict.fromkeys(Tier, 0)
        self._retired_tokens = dict.fromkeys(Tier, 0)
        # All that ever left a tier: how far a walk has come.
        self._released_tokens = dict.fromkeys(Tier, 0)
        self._tiers_of: dict[int, frozenset[Tier]] = {}
        self._nodes: dict[int, CacheNode] = {}

    # ---- what a concrete policy defines ----

    @abstractmethod
    def rank(self, tag: Tag) -> Rank:
        """Orders candidates by their tags: the smallest goes first."""

    @abstractmethod
    def explain(self, node: CacheNode) -> EvictionReason:
        """Why ``node`` would be evicted from the device now."""

    @abstractmethod
    def on_forecast(self, forecast: Forecast) -> None:
        """Take a new forecast of one workflow into the order."""

    def priority(self, node: CacheNode) -> Place:
        """Orders candidates: the smallest goes first. By rank, then by recency, then by id."""
        return self._index[Tier.DEVICE].place(node)

    def _new_index(self) -> EvictionIndex:
        """An empty order of one tier."""
        return EvictionIndex(self.rank)

    # ---- workflows ----

    def on_event(self, event: WorkflowEvent) -> None:
        """A workflow started, called an agent or terminated."""
        self._follow(self.workflows.apply(event))

    def expire(self, now_s: float, is_busy: Callable[[str], bool]) -> None:
        """Retire silent workflows, see :meth:`WorkflowRegistry.expire`."""
        self._follow(self.workflows.expire(now_s, is_busy))

    # ---- nodes ----

    def on_access(self, node: CacheNode, invocation: Invocation) -> None:
        """``invocation`` read or wrote the KV cache of ``node``.

        The invocation came in as an event before. Of a call that outlived the memory of its
        workflow nothing is noted: nobody would ever take the note away.
        """
        workflow_id = invocation.workflow_id
        if self.workflows.get(workflow_id) is None:
            return
        tag = node.tag
        before = tag.accesses.get(workflow_id)
        if before is not None and invocation.agent in before:
            return
        if before is None:
            self._nodes_of.setdefault(workflow_id, {})[node.node_id] = node
        agents = _with_agent(before or frozenset(), invocation.agent)
        was_retired = tag.retired
        self._give(node, self._tags.accessed(tag, workflow_id, agents), was_retired)

    def on_path(self, path: Sequence[CacheNode], invocation: Invocation) -> None:
        """``invocation`` used the KV cache of ``path``, the deepest node first.

        A node that already has this workflow's agent ends the tagging: whatever tagged it tagged
        its ancestors too, splits copy tags, and a node outlives its descendants.
        """
        for node in path:
            if invocation.agent in node.accesses.get(invocation.workflow_id, ()):
                return
            self.on_access(node, invocation)

    def on_call_finished(self, path: Sequence[CacheNode], invocation: Invocation) -> None:
        """``invocation`` is over; ``path`` is all that it read and wrote, as in :meth:`on_path`."""
        self.on_path(path, invocation)

    def on_queued(self, path: Sequence[CacheNode]) -> None:
        """A request that will read ``path`` waits in the engine's queue."""
        for node in path:
            self._give(node, self._tags.queued(node.tag, 1), node.retired)

    def on_dequeued(self, path: Sequence[CacheNode]) -> None:
        """The request announced with :meth:`on_queued` left the queue.

        ``path`` is its path now: the nodes it was announced with, and what splits made of them.
        """
        for node in path:
            self._give(node, self._tags.queued(node.tag, -1), node.retired)

    def on_split(self, parent: CacheNode, child: CacheNode) -> None:
        """``child`` was cut: its first tokens are now those of ``parent``, a new node above it.

        Both halves were accessed by the same invocations. Call it with both token counts final;
        ``parent`` must not have been stored yet, its tokens were ``child``'s.
        """
        self._give(parent, child.tag, parent.retired)
        for workflow_id in parent.accesses:
            self._nodes_of[workflow_id][parent.node_id] = parent
        tiers = self._tiers_of.get(child.node_id)
        if tiers:
            self._tiers_of[parent.node_id] = tiers
            self._nodes[parent.node_id] = parent

    def on_remove(self, node: CacheNode) -> None:
        """``node`` left the tree, after it left both tiers."""
        for tier in tuple(self._tiers_of.get(node.node_id, ())):
            self.on_release(node, tier)
        self._tiers_of.pop(node.node_id, None)
        self._nodes.pop(node.node_id, None)
        for index in self._indexes:
            index.discard(node)
        for workflow_id in node.accesses:
            nodes = self._nodes_of[workflow_id]
            del nodes[node.node_id]
            if not nodes:
                del self._nodes_of[workflow_id]
        self._give(node, UNTAGGED, node.retired)

    def on_store(self, node: CacheNode, tier: Tier) -> None:
        """The KV cache of ``node`` is now (also) on ``tier``."""
        self._nodes[node.node_id] = node
        tiers = self._tiers_of.get(node.node_id, _NOWHERE)
        if tier not in tiers:
            self._tiers_of[node.node_id] = _TIER_SETS[tiers | {tier}]
            self._stored_tokens[tier] += node.num_tokens
            if node.retired:
                self._retired_tokens[tier] += node.num_tokens

    def on_release(self, node: CacheNode, tier: Tier) -> None:
        """The KV cache of ``node`` is no longer on ``tier``."""
        tiers = self._tiers_of.get(node.node_id, _NOWHERE)
        if tier in tiers:
            self._tiers_of[node.node_id] = _TIER_SETS[tiers - {tier}]
            self._stored_tokens[tier] -= node.num_tokens
            self._released_tokens[tier] += node.num_tokens
            if node.retired:
                self._retired_tokens[tier] -= node.num_tokens

    def add_candidate(self, node: CacheNode, tier: Tier) -> None:
        """``node`` may be evicted from ``tier``: it is an unlocked leaf there."""
        self._index[tier].add(node)

    def drop_candidate(self, node: CacheNode, tier: Tier) -> None:
        """``node`` may not be evicted from ``tier`` any more."""
        self._index[tier].discard(node)
        self._stuck[tier].pop(node.node_id, None)

    # ---- answers ----

    def next_victims(self, num_tokens: int, tier: Tier) -> Generator[CacheNode, None, None]:
        """Nodes to evict from ``tier``, in order, until ``num_tokens`` tokens are freed.

        The caller evicts each node, and reports that (``on_release``, ``drop_candidate``, and
        ``add_candidate`` of a parent that became a leaf), before it asks for the next one: the
        order is always that of the present state. A node that the caller could not evict is passed
        over, once per walk.
        """
        released = self._released_tokens
        enough = released[tier] + num_tokens
        index = self._index[tier]
        stuck: dict[int, CacheNode] = {}
        self._stuck[tier] = stuck
        last: CacheNode | None = None
        try:
            while released[tier] < enough and (node := index.peek()) is not None:
                if node is last:
                    index.discard(node)
                    stuck[node.node_id] = node
                    continue
                last = node
                yield node
        finally:
            for node in stuck.values():
                index.add(node)
            self._stuck[tier] = {}

    @property
    def cuts_victims(self) -> bool:
        """Whether :meth:`kept_tokens` is ever above 0."""
        return self._unit is EvictionUnit.PAGE

    def kept_tokens(
        self, victim: CacheNode, needed_tokens: int, *, pool_tokens: int, page_size: int
    ) -> int:
        """Tokens at the beginning of ``victim`` that the caller cuts off and keeps before it evicts
        the rest, by the unit of the settings; 0 if all of it goes, as all that retired does.

        Arguments as of :meth:`EvictionUnit.kept_tokens`.
        """
        if self._unit is EvictionUnit.NODE or self.explain(victim) is EvictionReason.RETIRED:
            return 0
        return self._unit.kept_tokens(
            victim.num_tokens, needed_tokens, pool_tokens=pool_tokens, page_size=page_size
        )

    def candidates(self, tier: Tier) -> list[CacheNode]:
        """All candidates of ``tier`` in eviction order, for inspection."""
        return self._index[tier].ordered()

    def stored_tokens(self, tier: Tier) -> int:
        """Tokens of KV cache on ``tier``."""
        return self._stored_tokens[tier]

    def retired_tokens(self, tier: Tier) -> int:
        """Tokens of retired KV cache on ``tier``."""
        return self._retired_tokens[tier]

    def node(self, node_id: int | None) -> CacheNode | None:
        """The node of that id that is stored anywhere, None for the root or one that left."""
        return None if node_id is None else self._nodes.get(node_id)

    def tiers_of(self, node: CacheNode) -> frozenset[Tier]:
        """Where the KV cache of ``node`` is."""
        return self._tiers_of.get(node.node_id, _NOWHERE)

    def nodes_of(self, workflow_id: str) -> list[CacheNode]:
        """The nodes that a workflow accessed, first accessed first."""
        return list(self._nodes_of.get(workflow_id, {}).values())

    def clear_nodes(self) -> None:
        """The tree was emptied. Workflows stay as they are."""
        for index in self._indexes:
            index.clear()
        self._tags.clear()
        self._nodes_of.clear()
        self._tiers_of.clear()
        self._nodes.clear()
        self._stored_tokens = dict.fromkeys(Tier, 0)
        self._retired_tokens = dict.fromkeys(Tier, 0)

    # ---- shared bookkeeping ----

    def _follow(self, transitions: list[Transition]) -> None:
        for transition in transitions:
            workflow_id = transition.workflow_id
            if transition.phase is None:
                self._nodes_of.pop(workflow_id, None)
                self._rerank(self._tags.forget(workflow_id))
                continue
            step = 1 if transition.phase is WorkflowPhase.ACTIVE else -1
            turned = set()
            for tag in self._tags.of(workflow_id):
                was_retired = tag.retired
                tag.active_workflows += step
                if tag.retired != was_retired:
                    turned.add(tag)
            for node in self._nodes_of.get(workflow_id, {}).values():
                if node.tag in turned:
                    self._count_retired(node)
            self._phase_changed(transition)

    def _give(self, node: CacheNode, tag: Tag, was_retired: bool) -> None:
        """``node`` has ``tag`` from now on, which may be its own, changed."""
        old = node.tag
        if tag is old:
            for index in self._indexes:
                index.touched(node)
        else:
            node.tag = tag
            for index in self._indexes:
                index.moved(node, old)
            if self._tags.moved(old, tag):
                for index in self._indexes:
                    index.drop(old)
        if tag.retired != was_retired:
            self._count_retired(node)

    def _count_retired(self, node: CacheNode) -> None:
        """``node`` retired, or it is active again."""
        change = node.num_tokens if node.retired else -node.num_tokens
        for tier in self._tiers_of.get(node.node_id, ()):
            self._retired_tokens[tier] += change

    def _phase_changed(self, transition: Transition) -> None:
        """A workflow became active or retired, and its tags count it so."""
        self._rerank(self._tags.of(transition.workflow_id))

    def _rerank(self, tags: Iterable[Tag]) -> None:
        """The ranks of ``tags`` may be any other now."""
        for tag in tags:
            for index in self._indexes:
                index.changed(tag)

    def _settle(self) -> None:
        """Bring the order up to date now, so that no eviction has to do it first."""
        for index in self._indexes:
            index.settle()


_NOWHERE: frozenset[Tier] = frozenset()
# The few sets there are, shared by all nodes: one of its own would be a fifth of a node's memory.
_TIER_SETS = {
    tiers: tiers for size in range(3) for tiers in map(frozenset, combinations(Tier, size))
}

_AGENT_SETS: dict[tuple[frozenset[str], str], frozenset[str]] = {}
_MAX_AGENT_SETS = 65_536


def _with_agent(agents: frozenset[str], agent: str) -> frozenset[str]:
    """``agents`` and ``agent``, shared between all nodes with the same set: most nodes have one of
    a few sets, and a set of its own would cost each more than its index entry."""
    key = (agents, agent)
    union = _AGENT_SETS.get(key)
    if union is None:
        if len(_AGENT_SETS) >= _MAX_AGENT_SETS:
            _AGENT_SETS.clear()
        union = _AGENT_SETS[key] = agents | {agent}
    return union
