"""The clairvoyant policy: evicts what is used again last, as the scripts say.

It knows which calls are to come and which pages each of them reads. *When* they come depends on the
policy itself, so uses are put in order and not timed, as if every workflow called once a round:
waiting requests in the order of the queue, then running ones by what is left of their replies, then
everybody again, one round later; a workflow that has not started yet comes in where an active one
ends. Tokens are all of one size, so for a fixed order of uses it is best to evict what is used last
(Belady). The tree's rule that leaves go first is kept, and a node goes as a whole: where only its
first pages are used again, say a transcript before an instruction, its distance grows by as much.

It is the upper bound that other policies are held to, in practice and not by proof: the order is an
estimate where replies differ in length.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence

from pbkv.events import EventKind, WorkflowEvent
from pbkv.policy import CacheNode, PrefetchBudget, Tier
from pbkv.policy.lae import LaePolicy
from pbkv.settings import PolicySettings
from pbkv.sim.client import WorkflowRun
from pbkv.sim.node import TreeNode
from pbkv.sim.request import SimRequest
from pbkv.workload import ScriptedWorkflow


class Foresight:
    """What is to come: of the workflows under way (``runs``, by id), of the requests that wait and
    run, and of workflows not yet started. Memory grows with the pages of all prompts."""

    def __init__(self, scripts: Sequence[ScriptedWorkflow], page_size: int) -> None:
        self.runs: Mapping[str, WorkflowRun] = {}
        self.waiting: Callable[[], Sequence[SimRequest]] = tuple
        self.running: Callable[[], Sequence[SimRequest]] = tuple
        self.started = 0
        """Workflows that have sent their first call; they start in the order of the scripts."""
        self._order = [script.workflow_id for script in scripts]
        self._number = {workflow_id: n for n, workflow_id in enumerate(self._order)}
        self._calls = {script.workflow_id: len(script.calls) for script in scripts}
        # Page -> the workflows that read it, in the order in which they start -> the calls that do.
        self._uses: dict[int, dict[str, list[int]]] = defaultdict(dict)
        for script in scripts:
            for call, ids in enumerate(_prompts(script, page_size)):
                for page_id in ids:
                    self._uses[page_id].setdefault(script.workflow_id, []).append(call)
        # Of the present moment: workflow -> its next call and the place of that call in the order.
        self._next: dict[str, tuple[int, float]] = {}
        self._round = 1.0

    def look(self) -> None:
        """Put all calls to come in order, from the present moment on."""
        waiting = self.waiting()
        running = sorted(self.running(), key=lambda r: r.output_tokens - r.generated)
        runs = self.runs
        self._round = max(1, len(runs))
        places = {request.workflow_id: place for place, request in enumerate(waiting)}
        upcoming = {
            workflow_id: (runs[workflow_id].step - 1, float(place))
            for workflow_id, place in places.items()
        }
        for place, request in enumerate(running, start=len(waiting)):
            upcoming[request.workflow_id] = (runs[request.workflow_id].step, float(place))
        last = float(len(waiting) + len(running))
        for workflow_id, run in runs.items():
            upcoming.setdefault(workflow_id, (run.step, last))
        self._follow_starts(upcoming)
        self._next = upcoming

    def distance(self, node: TreeNode) -> float:
        """How little ``node`` is worth: the place of its next use in the order of calls to come,
        over the share of it that is used then; infinity for never."""
        uses = self._uses.get(node.ids[0])
        if uses is None:
            return math.inf
        soonest = math.inf
        reader = ("", 0)
        upcoming, rounds = self._next, self._round
        over = []
        for workflow_id, calls in uses.items():
            known = upcoming.get(workflow_id)
            if known is None:
                if self._number[workflow_id] >= self.started:
                    # All that follow start later still.
                    break
                over.append(workflow_id)
                continue
            next_call, place = known
            if place >= soonest:
                continue
            for call in calls:
                if call >= next_call:
                    use = place + (call - next_call) * rounds
                    if use < soonest:
                        soonest, reader = use, (workflow_id, call)
                    break
        for workflow_id in over:
            del uses[workflow_id]
        if math.isinf(soonest):
            return soonest
        return (soonest + 1.0) / self._share(node, *reader)

    def _share(self, node: TreeNode, workflow_id: str, call: int) -> float:
        """Share of the pages of ``node`` that a call reads: its first ones."""
        ids = node.ids
        low, high = 1, len(ids)
        while low < high:
            middle = (low + high + 1) // 2
            if call in self._uses.get(ids[middle - 1], {}).get(workflow_id, ()):
                low = middle
            else:
                high = middle - 1
        return low / len(ids)

    def _follow_starts(self, upcoming: dict[str, tuple[int, float]]) -> None:
        """A workflow starts when an active one ends, which the scripts tell."""
        ends = [
            place + (self._calls[workflow_id] - next_call) * self._round
            for workflow_id, (next_call, place) in upcoming.items()
        ]
        heapq.heapify(ends)
        # Those farther away than a generation of workflows are used later than all others.
        for workflow_id in self._order[self.started : self.started + len(ends)]:
            end = heapq.heappop(ends)
            upcoming[workflow_id] = (0, end)
            heapq.heappush(ends, end + self._calls[workflow_id] * self._round)


class OraclePolicy(LaePolicy):
    """Evicts the node whose next use is farthest away, and prefetches what is used before that.

    A walk costs O(candidates), a prefetch O(nodes that are on the host only).
    """

    name = "oracle"

    def __init__(self, settings: PolicySettings, foresight: Foresight) -> None:
        super().__init__(settings)
        self._foresight = foresight
        self.prefetcher = self
        self._host_only: dict[int, TreeNode] = {}
        self._members: dict[Tier, dict[int, TreeNode]] = {tier: {} for tier in Tier}
        self._walks: dict[Tier, list[tuple[float, int]] | None] = dict.fromkeys(Tier)

    def on_event(self, event: WorkflowEvent) -> None:
        if event.kind is EventKind.INVOKE and self.workflows.get(event.workflow_id) is None:
            self._foresight.started += 1
        super().on_event(event)

    # ---- prefetch ----

    @property
    def displaced_share(self) -> float:
        """All of the pool: :meth:`plan` sees to it that nothing nearer is displaced."""
        return 1.0

    def on_store(self, node: CacheNode, tier: Tier) -> None:
        super().on_store(node, tier)
        self._note_tiers(node)

    def on_release(self, node: CacheNode, tier: Tier) -> None:
        super().on_release(node, tier)
        self._note_tiers(node)

    def on_split(self, parent: CacheNode, child: CacheNode) -> None:
        super().on_split(parent, child)
        self._note_tiers(parent)

    def _note_tiers(self, node: CacheNode) -> None:
        if self.tiers_of(node) == {Tier.HOST}:
            self._host_only[node.node_id] = node  # type: ignore[assignment]
        else:
            self._host_only.pop(node.node_id, None)

    def plan(self, budget: PrefetchBudget) -> list[CacheNode]:
        """Host nodes from the nearest on, each with what is missing above it, as long as what they
        may displace is farther; as if no space were free."""
        if not self._host_only:
            return []
        self._foresight.look()
        distance = self._foresight.distance
        farthest = sorted(
            ((distance(node), node.num_tokens) for node in self._members[Tier.DEVICE].values()),
            reverse=True,
        )
        planned: dict[int, CacheNode] = {}
        loaded = displaced = place = 0
        for near, _, node in sorted(
            (distance(node), node_id, node) for node_id, node in self._host_only.items()
        ):
            chain = []
            above: TreeNode | None = node
            while above is not None and above.node_id in self._host_only:
                if above.node_id not in planned:
                    chain.append(above)
                above = above.parent
            tokens = sum(missing.num_tokens for missing in chain)
            if loaded + tokens > budget.tokens:
                break
            while displaced < loaded + tokens and place < len(farthest):
                far, victim_tokens = farthest[place]
                if far <= near:
                    return list(planned.values())
                displaced += victim_tokens
                place += 1
            if displaced < loaded + tokens:
                break
            loaded += tokens
            planned.update((missing.node_id, missing) for missing in reversed(chain))
        return list(planned.values())

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
        self._foresight.look()
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
        return (-self._foresight.distance(node), node.node_id)


def _prompts(script: ScriptedWorkflow, page_size: int) -> Generator[list[int], None, None]:
    """The whole pages of every prompt of ``script``."""
    run = WorkflowRun(script, page_size=page_size, max_new_tokens=None, now_s=0.0)
    for arrival in range(len(script.calls)):
        request = run.next_request(arrival, 0.0)
        yield request.ids[: (request.prompt_tokens - 1) // page_size]
