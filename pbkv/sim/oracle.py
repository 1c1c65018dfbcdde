"""The clairvoyant policy: evicts what is used again last, as the scripts say.

It knows which calls are to come and which nodes each of them reads. When they come depends on the
policy itself, so the time of a use is estimated: waiting requests are served in the order of the
queue, and a workflow's calls come one usual cycle apart.
Within the tree's rule that leaves go first it is the upper bound that other policies are held to;
not a proven optimum, which for nodes of different sizes nobody computes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator, Mapping, Sequence

from pbkv.events import EventKind, WorkflowEvent
from pbkv.policy import CacheNode, Tier
from pbkv.policy.lae import LaePolicy
from pbkv.settings import PolicySettings
from pbkv.sim.client import WorkflowRun
from pbkv.sim.node import TreeNode
from pbkv.sim.pages import PageChain
from pbkv.sim.request import SimRequest
from pbkv.workload import ScriptedWorkflow

_SMOOTHING = 0.02


class Foresight:
    """What is to come: of workflows under way (``runs``, by id), of the queue (``waiting``), and of
    workflows not yet started."""

    def __init__(self, scripts: Sequence[ScriptedWorkflow], page_size: int) -> None:
        self.runs: Mapping[str, WorkflowRun] = {}
        self.waiting: Callable[[], Sequence[SimRequest]] = tuple
        # First pages that later workflows begin with -> positions of those workflows, ascending.
        self._beginnings: dict[int, list[int]] = {}
        for position, script in enumerate(scripts):
            for held in script.contexts.values():
                for page_id in PageChain.of(held, page_size).ids:
                    self._beginnings.setdefault(page_id, []).append(position)

    def reads_now(self, workflow_id: str, node: TreeNode) -> bool:
        """Whether the call that a workflow sent last reads ``node``."""
        run = self.runs.get(workflow_id)
        return run is not None and run.sent_reads(node.start, node.ids[0])

    def calls_until(self, workflow_id: str, node: TreeNode) -> int | None:
        """In how many calls from its last one a workflow reads ``node``, None for never."""
        run = self.runs.get(workflow_id)
        return None if run is None else run.calls_until(node.start, node.ids[0])

    def workflows_until(self, node: TreeNode, started: int) -> int | None:
        """How many workflows start before one that begins with ``node``, None for none."""
        positions = self._beginnings.get(node.ids[0], [])
        while positions and positions[0] < started:
            positions.pop(0)
        return positions[0] - started if positions else None


class OraclePolicy(LaePolicy):
    """Evicts the node whose next use is farthest away. A walk costs O(candidates)."""

    name = "oracle"

    def __init__(self, settings: PolicySettings, foresight: Foresight) -> None:
        super().__init__(settings)
        self._foresight = foresight
        self._members: dict[Tier, dict[int, TreeNode]] = {tier: {} for tier in Tier}
        self._walks: dict[Tier, list[tuple[float, int]] | None] = dict.fromkeys(Tier)
        self._positions: dict[str, int] = {}
        self._now_s = 0.0
        self._cycle_s = 10.0
        self._start_gap_s = 1.0
        self._started = 0
        self._last_start_s = 0.0

    def on_event(self, event: WorkflowEvent) -> None:
        self._now_s = max(self._now_s, event.at_s)
        known = self.workflows.get(event.workflow_id)
        if event.kind is EventKind.INVOKE:
            if known is None:
                self._started += 1
                gap_s, self._last_start_s = event.at_s - self._last_start_s, event.at_s
                self._start_gap_s += _SMOOTHING * (gap_s - self._start_gap_s)
            else:
                cycle_s = event.at_s - known.last_seen_s
                self._cycle_s += _SMOOTHING * (cycle_s - self._cycle_s)
        super().on_event(event)

    def next_use_s(self, node: TreeNode) -> float:
        """When ``node`` is read next, infinity for never."""
        soonest = math.inf
        foresight, cycle_s = self._foresight, self._cycle_s
        for workflow_id in node.accesses:
            position = self._positions.get(workflow_id)
            if position is not None and foresight.reads_now(workflow_id, node):
                gap_s = cycle_s / max(1, self.workflows.num_active)
                soonest = min(soonest, self._now_s + position * gap_s)
                continue
            calls = foresight.calls_until(workflow_id, node)
            workflow = self.workflows.get(workflow_id)
            if calls is not None and workflow is not None:
                soonest = min(soonest, workflow.last_seen_s + calls * cycle_s)
        starts = self._foresight.workflows_until(node, self._started)
        if starts is not None:
            soonest = min(soonest, self._now_s + (starts + 1) * self._start_gap_s)
        return soonest

    # ---- the order, computed when it is asked for ----

    def add_candidate(self, node: CacheNode, tier: Tier) -> None:
        super().add_candidate(node, tier)
        members = self._members[tier]
        members[node.node_id] = node  # type: ignore[assignment]
        walk = self._walks[tier]
        if walk is not None:
            heapq.heappush(walk, self._place(members[node.node_id]))

    def drop_candidate(self, node: CacheNode, tier: Tier) -> None:
        super().drop_candidate(node, tier)
        self._members[tier].pop(node.node_id, None)

    def next_victims(self, num_tokens: int, tier: Tier) -> Generator[CacheNode, None, None]:
        members = self._members[tier]
        waiting = self._foresight.waiting()
        self._positions = {request.workflow_id: n for n, request in enumerate(waiting)}
        walk = self._walks[tier] = [self._place(node) for node in members.values()]
        heapq.heapify(walk)
        freed = 0
        try:
            while freed < num_tokens and walk:
                node = members.get(heapq.heappop(walk)[1])
                if node is None:
                    continue
                node_tokens = node.num_tokens
                yield node
                if node.node_id not in members:
                    freed += node_tokens
        finally:
            self._walks[tier] = None

    def _place(self, node: TreeNode) -> tuple[float, int]:
        return (-self.next_use_s(node), node.node_id)
