"""The queue of a simulated engine: what a policy is told of it, and its order.

Orders are those of SGLang 0.5.23 by its names, and ``pbkv``, the plug-in's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pbkv.errors import SettingsError
from pbkv.policy import EvictionPolicy
from pbkv.policy.he import HePolicy
from pbkv.policy.queue_order import QueueEntry, QueueOrder
from pbkv.settings import PBKV_QUEUE, PolicySettings
from pbkv.sim.node import Match, TreeNode
from pbkv.sim.request import SimRequest
from pbkv.sim.tree import SimulatedTree

STOCK_QUEUES = ("fcfs", "lpm", "hrrn", "shortest-prefill-first")
QUEUES = (*STOCK_QUEUES, PBKV_QUEUE)

MATCH_LIMIT = 128
"""Above this many waiting requests stock's ``lpm`` and ``hrrn`` leave the queue as it is."""

EQUAL_PREFIX_TOKENS = 32
"""Of requests with no more cached than this that begin alike for as long, the first goes ahead."""

TOUCH_INTERVAL = 32
"""Stock ``fcfs`` refreshes the recency of waiting prompts at every so many orderings."""

REUSE_FRESH_S = 2.0
"""How long the plug-in takes the mean Score of a waiting path for fresh."""


@dataclass(slots=True)
class Waiting:
    """What is known of one request in the queue. ``entry`` is made anew when the match changed or
    its reuse is no longer fresh; the forecast of a waiting workflow does not change."""

    match: Match
    announced: TreeNode | None = None
    entry: QueueEntry | None = None
    entry_at_s: float = -math.inf


class WaitingQueue:
    """Requests that wait for their prefill, in the order in which they will be tried."""

    def __init__(
        self, tree: SimulatedTree, policy: EvictionPolicy, queue: str, settings: PolicySettings
    ) -> None:
        orders: dict[str, Callable[[float, int], None]] = {
            "fcfs": self._fcfs,
            "lpm": self._lpm,
            "hrrn": self._hrrn,
            "shortest-prefill-first": self._shortest_prefill_first,
            PBKV_QUEUE: self._pbkv,
        }
        if queue not in orders:
            raise SettingsError(f"unknown queue {queue!r}; choose one of: {', '.join(QUEUES)}")
        self.requests: list[SimRequest] = []
        self._tree = tree
        self._policy = policy
        self._forecasts = policy if isinstance(policy, HePolicy) else None
        self._announces = settings.queue_knowledge and policy.uses_forecasts
        self._order = QueueOrder.of(settings)
        self._sort = orders[queue]
        self._touches = queue == "fcfs"
        self._orderings = 0
        self._beginning_page = -(-EQUAL_PREFIX_TOKENS // tree.page_size) - 1

    def __len__(self) -> int:
        return len(self.requests)

    # ---- who waits ----

    def add(self, request: SimRequest) -> None:
        waiting = request.waiting = Waiting(self._match(request))
        self.requests.append(request)
        if self._announces:
            self._announce(waiting)

    def leave(self, admitted: list[SimRequest]) -> None:
        """These requests left the queue."""
        gone = set(map(id, admitted))
        self.requests = [request for request in self.requests if id(request) not in gone]
        for request in admitted:
            waiting = request.waiting
            request.waiting = None
            if waiting is not None and waiting.announced is not None:
                self._policy.on_dequeued(self._alive_path(waiting.announced))

    def order(self, now_s: float, processed_tokens: int) -> None:
        """Put the queue in order. ``processed_tokens`` counts all prefilled so far."""
        self._orderings += 1
        self._sort(now_s, processed_tokens)

    # ---- what the policy is told ----

    def _announce(self, waiting: Waiting) -> None:
        old = [] if waiting.announced is None else self._alive_path(waiting.announced)
        new = self._alive_path(waiting.match.end)
        waiting.announced = waiting.match.end
        if old:
            old_ids = {node.node_id for node in old}
            new_ids = {node.node_id for node in new}
            self._policy.on_dequeued([node for node in old if node.node_id not in new_ids])
            new = [node for node in new if node.node_id not in old_ids]
        self._policy.on_queued(new)

    def _alive_path(self, end: TreeNode) -> list[TreeNode]:
        return [node for node in self._tree.path(end) if node.alive]

    # ---- matching ----

    def _match(self, request: SimRequest) -> Match:
        limit = (request.input_tokens - 1) // self._tree.page_size
        return self._tree.match(request.ids, limit)

    def _fresh_match(self, request: SimRequest) -> Match:
        waiting: Waiting = request.waiting  # type: ignore[assignment]
        if waiting.match.outdated():
            waiting.match = self._match(request)
            waiting.entry = None
            if self._announces:
                self._announce(waiting)
        return waiting.match

    def _matched(self, *, touch: bool) -> tuple[list[Match], set[int]]:
        """A fresh match per request, and the ids of requests that begin like one before them."""
        matches = []
        for request in self.requests:
            match = self._fresh_match(request)
            if touch:
                self._tree.touch(match.end)
            matches.append(match)
        return matches, self._held_back(matches)

    def _held_back(self, matches: list[Match]) -> set[int]:
        held_back: set[int] = set()
        leading: set[int] = set()
        page, first = self._tree.page_size, self._beginning_page
        for request, match in zip(self.requests, matches, strict=True):
            if match.device_pages * page > EQUAL_PREFIX_TOKENS or len(request.ids) <= first:
                continue
            beginning = request.ids[first]
            if beginning in leading:
                held_back.add(id(request))
            leading.add(beginning)
        return held_back

    # ---- stock orders ----

    def _fcfs(self, now_s: float, processed_tokens: int) -> None:
        if self._touches and self._orderings % TOUCH_INTERVAL == 1:
            for request in reversed(self.requests[:MATCH_LIMIT]):
                self._tree.touch(self._fresh_match(request).end)

    def _lpm(self, now_s: float, processed_tokens: int) -> None:
        if len(self.requests) > MATCH_LIMIT:
            return
        matches, held_back = self._matched(touch=True)
        self._sort_by(
            [
                math.inf if id(request) in held_back else -match.matched_pages
                for request, match in zip(self.requests, matches, strict=True)
            ]
        )

    def _hrrn(self, now_s: float, processed_tokens: int) -> None:
        if len(self.requests) > MATCH_LIMIT:
            return
        matches, held_back = self._matched(touch=True)
        self._sort_by(
            [
                math.inf
                if id(request) in held_back
                else (request.processed_at_arrival - processed_tokens)
                / (self._uncached(request, match) or 1)
                for request, match in zip(self.requests, matches, strict=True)
            ],
            ties_by_arrival=True,
        )

    def _shortest_prefill_first(self, now_s: float, processed_tokens: int) -> None:
        matches, held_back = self._matched(touch=True)
        self._sort_by(
            [
                self._uncached(request, match) + (1 << 40) * (id(request) in held_back)
                for request, match in zip(self.requests, matches, strict=True)
            ],
            ties_by_arrival=True,
        )

    def _uncached(self, request: SimRequest, match: Match) -> int:
        return request.input_tokens - match.matched_pages * self._tree.page_size

    def _sort_by(self, keys: list[float], *, ties_by_arrival: bool = False) -> None:
        numbered = [
            (key, request.arrival if ties_by_arrival else place, request)
            for place, (key, request) in enumerate(zip(keys, self.requests, strict=True))
        ]
        numbered.sort(key=lambda item: item[:2])
        self.requests = [request for _, _, request in numbered]

    # ---- the plug-in's order ----

    def _pbkv(self, now_s: float, processed_tokens: int) -> None:
        # Most requests are as they were, which is told here without a call. All matches come first:
        # a new one announces its path, which the entries of others look at.
        matches: list[Match] = []
        for request in self.requests:
            match = request.waiting.match  # type: ignore[union-attr]
            matches.append(self._fresh_match(request) if match.outdated() else match)
        entries: list[QueueEntry] = []
        fresh_s = math.inf if self._forecasts is None else REUSE_FRESH_S
        for request, match in zip(self.requests, matches, strict=True):
            waiting: Waiting = request.waiting  # type: ignore[assignment]
            entry = waiting.entry
            if entry is None or now_s - waiting.entry_at_s >= fresh_s:
                entry = self._new_entry(request, match, now_s)
            entries.append(entry)
        keys = self._order.keys(entries, now_s, self._policy.workflows.pace.usual(now_s))
        places = sorted(range(len(keys)), key=keys.__getitem__)
        self.requests = [self.requests[place] for place in places]
        held_back = self._held_back([matches[place] for place in places])
        if held_back:
            overdue = {id(r) for place, r in zip(places, self.requests, strict=True)
                       if keys[place][0] == 0}  # fmt: skip
            held_back -= overdue
            self.requests.sort(key=lambda request: id(request) in held_back)

    def _new_entry(self, request: SimRequest, match: Match, now_s: float) -> QueueEntry:
        waiting: Waiting = request.waiting  # type: ignore[assignment]
        workflow = self._policy.workflows.get(request.workflow_id)
        reuse, calls_left = 0.0, None
        if self._forecasts is not None:
            calls_left = self._forecasts.calls_left(request.workflow_id)
            reuse = self._reuse(self._forecasts, waiting)
        entry = waiting.entry = QueueEntry(
            started_s=request.arrived_s if workflow is None else workflow.started_at_s,
            arrived_s=request.arrived_s,
            arrival=request.arrival,
            prompt_tokens=request.input_tokens,
            cached_tokens=match.device_pages * self._tree.page_size,
            reuse=reuse,
            calls_made=0 if workflow is None else max(0, workflow.calls - 1),
            calls_left=calls_left,
        )
        waiting.entry_at_s = now_s
        return entry

    def _reuse(self, policy: HePolicy, waiting: Waiting) -> float:
        """Mean Score of the tokens on the device, without the request's own claim to them."""
        own = 0.0 if waiting.announced is None else 1.0
        total = tokens = 0.0
        for node in self._tree.path(waiting.match.device_end):
            total += node.num_tokens * max(0.0, policy.score(node) - own)
            tokens += node.num_tokens
        return total / tokens if tokens else 0.0
