"""The engine's queue of waiting requests: what the policy is told of it, and its order.

Every waiting request has its path in the tree found once, when it joins. When the queue is put in
order, its path is looked for again only if the old one no longer holds, which costs a few look-ups
to see. So a long queue is ordered like a short one, where stock gives up above 128 requests.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sglang.srt.managers.schedule_policy import (
    IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD,
    IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD,
)

from pbkv.policy.he import HePolicy
from pbkv.policy.queue_order import QueueEntry, QueueKey, QueueOrder
from pbkv.sglang.requests import invocation_of
from pbkv.sglang.tree_walk import PromptMatch, TreeWalk

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.mem_cache.radix_cache import RadixKey
    from sglang.srt.mem_cache.unified_cache.unified_tree_core import UnifiedTreeNode

    from pbkv.sglang.binding import PolicyBinding
    from pbkv.sglang.tree import PolicyTreeCore
    from pbkv.sglang.views import TreeNodeView

REUSE_FRESH_S = 2.0
"""How long the mean Score of a waiting request's path is taken for fresh. Scores move with every
forecast, and a walk over every path at every step would cost more than it tells."""

_ARRIVAL = "_pbkv_arrival"


@dataclass(slots=True)
class _Waiting:
    """One request in the queue. ``announced`` is the deepest node that the policy was told of,
    ``beginning`` the first tokens of the prompt, None of a short one."""

    key: RadixKey
    beginning: Any
    workflow_id: str | None
    prompt_tokens: int
    arrived_s: float
    arrival: int
    match: PromptMatch
    announced: UnifiedTreeNode | None = None
    reuse: float = 0.0
    reuse_at_s: float = -math.inf
    entry: QueueEntry | None = None
    entry_at_s: float = -math.inf


class WaitingRequests:
    """The requests in the queue of this rank.

    Invariant, if the policy is told of the queue: ``waiting`` of a node is the number of waiting
    requests that were announced at it or below it. A request counts until the step after the one
    in which it left the queue.
    """

    def __init__(self, tree: PolicyTreeCore, binding: PolicyBinding) -> None:
        settings = binding.policy.settings
        self._walk = TreeWalk(tree, binding.views)
        self._binding = binding
        self._policy = binding.policy
        self._forecasts = self._policy if isinstance(self._policy, HePolicy) else None
        self._announces = settings.queue_knowledge and self._policy.uses_forecasts
        self._order = QueueOrder.of(settings) if settings.queue else None
        self._requests: dict[Req, _Waiting] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def ordered(self) -> bool:
        """Whether the order of the queue is the plug-in's."""
        return self._order is not None

    def cached_tokens(self, req: Req) -> int:
        """Tokens of the prompt that were on the device when the path of ``req`` was last looked
        for; 0 of a request whose path is not followed."""
        waiting = self._requests.get(req)
        return 0 if waiting is None else waiting.match.device_tokens

    # ---- who waits ----

    def joined(self, req: Req) -> None:
        """``req`` was put into the queue, for the first time or again after a retraction."""
        self._withdraw(self._requests.pop(req, None))
        if self._order is not None or self._announces:
            self._add(req)

    def keep(self, queue: Sequence[Req]) -> None:
        """Forget the requests that left the queue, admitted or aborted."""
        if len(self._requests) <= len(queue):
            # Whoever joins is reported, so an equal number means that nobody left.
            return
        present = set(queue)
        for req in [req for req in self._requests if req not in present]:
            self._withdraw(self._requests.pop(req))

    def _add(self, req: Req) -> _Waiting:
        binding = self._binding
        arrival = getattr(req, _ARRIVAL, None)
        if arrival is None:
            # Kept on the request: one that was retracted has waited since it first came.
            arrival = (binding.now_s, self._arrivals)
            self._arrivals += 1
            setattr(req, _ARRIVAL, arrival)
        invocation = invocation_of(req, binding)
        key = self._walk.key(req)
        waiting = _Waiting(
            key=key,
            beginning=_beginning(key),
            workflow_id=None if invocation is None else invocation.workflow_id,
            prompt_tokens=len(req.origin_input_ids) + len(req.output_ids),
            arrived_s=arrival[0],
            arrival=arrival[1],
            match=self._walk.match(key),
        )
        self._requests[req] = waiting
        if self._announces:
            self._announce(waiting)
        return waiting

    # ---- what the policy is told ----

    def _announce(self, waiting: _Waiting) -> None:
        """Tell the policy the path of a request, or what changed of it."""
        old = self._path(waiting.announced)
        new = self._path(waiting.match.end)
        old_ids = {view.node_id for view in old}
        new_ids = {view.node_id for view in new}
        waiting.announced = waiting.match.end
        self._policy.on_dequeued([view for view in old if view.node_id not in new_ids])
        self._policy.on_queued([view for view in new if view.node_id not in old_ids])

    def _withdraw(self, waiting: _Waiting | None) -> None:
        if waiting is not None and waiting.announced is not None:
            self._policy.on_dequeued(self._path(waiting.announced))

    def _path(self, end: UnifiedTreeNode | None) -> list[TreeNodeView]:
        """Views of the nodes from ``end`` up that are in the tree, the deepest first.

        A node that left the tree still points at its parent, and a split puts the new node between
        the two, so the walk finds every node that an announcement of ``end`` ever counted on.
        """
        known = self._binding.views.known
        path = []
        node = end
        while node is not None:
            view = known(node)
            if view is not None:
                path.append(view)
            node = node.parent
        return path

    # ---- the order ----

    def sort(self, queue: list[Req], priority_sign: int | None) -> None:
        """Put ``queue`` in order, in place. ``priority_sign`` None ignores request priorities;
        else the priority goes first, as in stock's own order."""
        order = self._order
        if order is None:
            raise RuntimeError("the order of the queue is the engine's")
        start_s = time.perf_counter()
        now_s = self._binding.now_s
        waiting = [self._requests.get(req) or self._add(req) for req in queue]
        self.keep(queue)
        entries = [self._entry(request, now_s) for request in waiting]
        usual = self._policy.workflows.pace.usual(now_s)
        keys = dict(zip(queue, order.keys(entries, now_s, usual), strict=True))
        if priority_sign is None:
            queue.sort(key=keys.__getitem__)
        else:
            queue.sort(key=lambda req: (req.priority * priority_sign, keys[req]))
        self._hold_back_equal_prefixes(queue, keys)
        self._binding.recorder.took("queue", time.perf_counter() - start_s)

    def _entry(self, waiting: _Waiting, now_s: float) -> QueueEntry:
        """What the order needs to know, made anew when the path changed or the clock moved."""
        if self._walk.outdated(waiting.match):
            waiting.match = self._walk.match(waiting.key)
            waiting.entry, waiting.reuse_at_s = None, -math.inf
            if self._announces:
                self._announce(waiting)
        if waiting.entry is None or waiting.entry_at_s != now_s:
            waiting.entry, waiting.entry_at_s = self._new_entry(waiting, now_s), now_s
        return waiting.entry

    def _new_entry(self, waiting: _Waiting, now_s: float) -> QueueEntry:
        workflow = None
        # A request of no workflow is a workflow of one call.
        calls_left: float | None = 1.0
        if waiting.workflow_id is not None:
            workflow = self._policy.workflows.get(waiting.workflow_id)
            calls_left = None
            if self._forecasts is not None:
                calls_left = self._forecasts.calls_left(waiting.workflow_id)
        if self._forecasts is not None and now_s - waiting.reuse_at_s >= REUSE_FRESH_S:
            waiting.reuse, waiting.reuse_at_s = self._reuse(self._forecasts, waiting), now_s
        return QueueEntry(
            started_s=waiting.arrived_s if workflow is None else workflow.started_at_s,
            arrived_s=waiting.arrived_s,
            arrival=waiting.arrival,
            prompt_tokens=waiting.prompt_tokens,
            cached_tokens=waiting.match.device_tokens,
            reuse=waiting.reuse,
            calls_made=0 if workflow is None else max(0, workflow.calls - 1),
            calls_left=calls_left,
        )

    def _reuse(self, policy: HePolicy, waiting: _Waiting) -> float:
        """Mean Score of the tokens on the device, without the request's own claim to them."""
        own = 0.0 if waiting.announced is None else 1.0
        total = tokens = 0.0
        for view in self._path(waiting.match.device_end):
            total += view.num_tokens * max(0.0, policy.score(view) - own)
            tokens += view.num_tokens
        return total / tokens if tokens else 0.0

    def _hold_back_equal_prefixes(self, queue: list[Req], keys: dict[Req, QueueKey]) -> None:
        """Of several requests with the same beginning that is not cached, let the first go ahead
        and compute it, as stock's prefix-aware orders do. Overdue requests keep their place."""
        leading = set()
        held_back = []
        for req in queue:
            waiting = self._requests[req]
            if waiting.match.matched_tokens > IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD:
                continue
            if waiting.beginning in leading and keys[req][0] > 0:
                held_back.append(req)
            elif waiting.beginning is not None:
                leading.add(waiting.beginning)
        if held_back:
            later = set(held_back)
            queue[:] = [req for req in queue if req not in later] + held_back


def _beginning(key: RadixKey) -> Any:
    """The first tokens of a prompt and their namespace, None of a prompt that is shorter."""
    tokens = IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD
    return key.child_key_at(0, tokens) if 0 < tokens <= len(key) else None
