"""One SGLang engine in simulated time: continuous batching over a simulated tree.

The caller owns the clock. It submits requests, asks the engine to :meth:`SimulatedEngine.begin` a
step, and calls :meth:`SimulatedEngine.finish` when the step is over; a step is one prefill batch or
a run of equal decode steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pbkv.errors import SettingsError
from pbkv.events import EventKind, WorkflowEvent
from pbkv.policy import EvictionPolicy
from pbkv.settings import PolicySettings
from pbkv.sim.admission import CLIP_NEW_TOKENS, PrefillAdder
from pbkv.sim.costs import GpuCosts
from pbkv.sim.prefetching import PrefetchingPolicy, prefetch
from pbkv.sim.request import SimRequest
from pbkv.sim.tree import SimulatedTree
from pbkv.sim.waiting import WaitingQueue

EXPIRE_INTERVAL_S = 5.0
"""How often the policy looks for silent workflows, in simulated seconds."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What the engine was started with, by SGLang's names.

    ``host_ratio`` is host over device tier. ``new_token_ratio`` is the share of the tokens allowed
    to running requests that admission reserves: the first, the least, and in how many decode steps
    it falls from one to the other; a retraction sets it anew. ``decode_run`` bounds how many equal
    decode steps are taken at once.
    """

    kv_tokens: int
    host_ratio: float = 1.0
    page_size: int = 16
    max_running_requests: int = 64
    chunked_prefill_size: int = 4096
    max_prefill_tokens: int = 16_384
    new_token_ratio: tuple[float, float, int] = (0.7, 0.098, 600)
    decode_run: int = 16

    def __post_init__(self) -> None:
        if self.kv_tokens < self.page_size:
            raise SettingsError(
                f"kv_tokens is {self.kv_tokens}, less than one page of {self.page_size}"
            )
        if not 0.0 <= self.host_ratio < math.inf:
            raise SettingsError(f"host_ratio is {self.host_ratio}; it must be 0 or above")
        for name in ("page_size", "max_running_requests", "chunked_prefill_size", "decode_run"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.chunked_prefill_size < self.page_size:
            raise SettingsError("chunked_prefill_size is less than one page")


@dataclass(slots=True)
class _Prefill:
    """A batch of prefills: each request, and the page up to which this step covers it."""

    parts: list[tuple[SimRequest, int]]
    new_tokens: int


@dataclass(slots=True)
class _Decode:
    """A run of ``steps`` decode steps from ``begun_s``."""

    begun_s: float
    step_s: float
    steps: int


class SimulatedEngine:
    """Queue, batches and memory of one engine; ``policy`` is the object a real engine would use."""

    def __init__(
        self,
        policy: EvictionPolicy,
        limits: EngineLimits,
        costs: GpuCosts,
        queue: str,
        settings: PolicySettings,
    ) -> None:
        page = limits.page_size
        self.policy = policy
        self.limits = limits
        self.costs = costs
        self.tree = SimulatedTree(
            policy,
            page_size=page,
            device_tokens=limits.kv_tokens // page * page,
            host_tokens=int(limits.kv_tokens * limits.host_ratio) // page * page,
        )
        self.queue = WaitingQueue(self.tree, policy, queue, settings)
        self.running: list[SimRequest] = []
        self.retractions = 0
        self.prefetched_tokens = 0
        self.decode_steps = 0
        self.prefill_steps = 0
        self.processed_tokens = 0
        self.chunked: SimRequest | None = None
        self._step: _Prefill | _Decode | None = None
        self._full = False
        self.new_token_ratio = limits.new_token_ratio[0]
        self._prefetcher = policy if isinstance(policy, PrefetchingPolicy) else None
        self._expired_s = 0.0

    @property
    def busy(self) -> bool:
        """Whether a step is under way."""
        return self._step is not None

    @property
    def in_service(self) -> list[SimRequest]:
        """Requests that left the queue: those that decode, and those of a prefill under way."""
        prefilled = [] if not isinstance(self._step, _Prefill) else [r for r, _ in self._step.parts]
        chunked = [self.chunked] if self.chunked and self.chunked not in prefilled else []
        return [*self.running, *prefilled, *chunked]

    # ---- requests ----

    def submit(self, request: SimRequest, now_s: float) -> float | None:
        """A request arrived. Answers when the step under way ends now, if that changed."""
        self.check_fits(request.workflow_id, request.prompt_tokens, request.max_new_tokens)
        self.policy.on_event(WorkflowEvent.invoke(request.invocation))
        request.processed_at_arrival = self.processed_tokens
        self.queue.add(request)
        step = self._step
        if isinstance(step, _Decode):
            # The queue is looked at between steps, so the run ends with the step under way.
            steps = max(1, math.ceil((now_s - step.begun_s) / step.step_s - 1e-9))
            if steps < step.steps:
                step.steps = steps
                return step.begun_s + steps * step.step_s
        return None

    def check_fits(self, workflow_id: str, prompt_tokens: int, max_new_tokens: int) -> None:
        """Raise :class:`SettingsError` for a call that no empty engine could serve."""
        needed = prompt_tokens + min(max_new_tokens, CLIP_NEW_TOKENS) + 2 * self.limits.page_size
        if needed >= self.tree.device_tokens:
            raise SettingsError(
                f"a call of {workflow_id} needs {needed} tokens of KV cache, "
                f"the pool has {self.tree.device_tokens}"
            )

    # ---- steps ----

    def begin(self, now_s: float) -> float | None:
        """Start the next step. Answers when it ends, None if there is nothing to do."""
        if now_s - self._expired_s >= EXPIRE_INTERVAL_S:
            self._expired_s = now_s
            self.policy.expire(now_s, self._is_busy)
        prefill = self._admit(now_s)
        if prefill is not None:
            batch, loaded_tokens = prefill
            self._step = batch
            self.prefill_steps += 1
            self.processed_tokens += batch.new_tokens
            return now_s + self.costs.prefill_s(batch.new_tokens, loaded_tokens)
        if not self.running:
            return None
        run = self._plan_decode(now_s)
        self._step = run
        return now_s + run.steps * run.step_s

    def finish(self, now_s: float) -> list[SimRequest]:
        """The step under way is over. Answers the requests that finished with it."""
        step, self._step = self._step, None
        if isinstance(step, _Prefill):
            return self._finish_prefill(step, now_s)
        if isinstance(step, _Decode):
            return self._finish_decode(step, now_s)
        raise RuntimeError("no step is under way")

    def _is_busy(self, workflow_id: str) -> bool:
        waiting = self.queue.requests
        return any(r.workflow_id == workflow_id for r in (*self.running, *waiting))

    # ---- prefill ----

    def _admit(self, now_s: float) -> tuple[_Prefill, int] | None:
        """What SGLang's PrefillAdder does: continue a chunked prompt, then take waiting requests
        in order until memory, the chunk or the number of requests is used up."""
        queue, chunked = self.queue, self.chunked
        if not self.running:
            self._full = False
        if chunked is None:
            if self._full or not queue.requests:
                return None
            if len(self.running) >= self.limits.max_running_requests:
                self._full = True
                return None
        queue.order(now_s, self.processed_tokens)
        adder = PrefillAdder(self)
        if chunked is not None:
            adder.go_on(chunked)
        admitted: list[SimRequest] = []
        for request in queue.requests:
            if adder.chunk_left <= 0 or adder.input_left <= 0:
                break
            if len(self.running) + len(adder.parts) >= self.limits.max_running_requests:
                self._full = True
                break
            if not adder.add(request):
                self._full = adder.no_memory and bool(adder.parts or self.running)
                break
            admitted.append(request)
            if request.admitted_s < 0.0:
                request.admitted_s = now_s
            if adder.available() <= 0:
                self._full = True
                break
        if not adder.parts:
            return None
        if admitted:
            queue.leave(admitted)
        # The paged allocator wants a page more per request than it may come to need.
        page = self.limits.page_size
        self.tree.make_room(adder.new_tokens + len(adder.parts) * page)
        for request, extend in adder.parts:
            self._take_private(request, request.kv_tokens + extend)
        self.chunked = adder.chunked
        return _Prefill(adder.parts, adder.new_tokens), adder.loaded_tokens

    def _take_private(self, request: SimRequest, kv_tokens: int) -> None:
        """Give a request the pages it needs to hold ``kv_tokens``."""
        page = self.limits.page_size
        last = request.last_node
        inside = 0 if last is None else last.end
        pages = -(-kv_tokens // page) - inside
        more = (pages - request.private_pages) * page
        if more > 0:
            if not self.tree.make_room(more):
                raise RuntimeError("admission promised memory that is not there")
            self.tree.private += more
            request.private_pages = pages

    def _finish_prefill(self, batch: _Prefill, now_s: float) -> list[SimRequest]:
        finished = []
        for request, extend in batch.parts:
            request.kv_tokens += extend
            self._checkpoint(request, finished=False)
            if request is self.chunked:
                continue
            if request.first_token_s < 0.0:
                request.first_token_s = now_s
            request.generated += 1
            if request.generated >= request.output_tokens:
                finished.append(request)
            else:
                self.running.append(request)
        for request in finished:
            self._end(request, now_s)
        return finished

    # ---- the tree ----

    def _checkpoint(self, request: SimRequest, *, finished: bool) -> None:
        """Put what the request computed into the tree, tag it, and lock its new end."""
        tree = self.tree
        old = request.last_node or tree.root
        end = tree.insert(request.ids, request.kv_tokens // self.limits.page_size, old)
        page = self.limits.page_size
        # Pages that others stored meanwhile are dropped, the rest changes hands.
        kept = 0 if finished else -(-request.kv_tokens // page) - end.end
        tree.private -= (request.private_pages - kept) * page
        request.private_pages = kept
        tree.touch(end)
        if end is not old:
            tree.lock(end)
            if request.last_node is not None:
                tree.unlock(old)
            request.last_node = end
        path = tree.path(end)
        if finished:
            self.policy.on_call_finished(path, request.invocation)
        else:
            self.policy.on_path(path, request.invocation)

    def _end(self, request: SimRequest, now_s: float) -> None:
        request.finished_s = now_s
        self._checkpoint(request, finished=True)
        if request.last_node is not None:
            self.tree.unlock(request.last_node)
            request.last_node = None
        self._full = False
        if request.invocation.end:
            self.policy.on_event(WorkflowEvent(EventKind.TERMINATE, request.workflow_id, now_s))

    # ---- decode ----

    def _plan_decode(self, now_s: float) -> _Decode:
        running = self.running
        steps = min(self.limits.decode_run, *(r.output_tokens - r.generated for r in running))
        if self.chunked is not None or (self.queue.requests and not self._full):
            steps = 1
        # As at a prefill, a page per request is made free at every step, needed or not.
        page = self.limits.page_size
        self.tree.make_room(self._growth(steps - 1) + len(running) * page)
        while not self.tree.make_room(self._growth(steps)):
            if steps > 1:
                steps = 1
            else:
                self._retract()
        kv_tokens = sum(request.kv_tokens for request in running) + len(running)
        step_s = self.costs.decode_s(len(running), kv_tokens)
        for request in running:
            self._take_private(request, request.kv_tokens + steps)
        if self._prefetcher is not None:
            self.prefetched_tokens += prefetch(self, self._prefetcher, steps * step_s)
        return _Decode(now_s, step_s, steps)

    def _growth(self, steps: int) -> int:
        """Tokens of new pages that ``steps`` decode steps take."""
        page = self.limits.page_size
        pages = 0
        for request in self.running:
            kv_tokens = request.kv_tokens
            pages += -(-(kv_tokens + steps) // page) - -(-kv_tokens // page)
        return pages * page

    def _retract(self) -> None:
        """Put the request with the shortest reply so far back into the queue."""
        if len(self.running) == 1:
            raise RuntimeError("a request alone does not fit its memory")
        victim = min(self.running, key=lambda r: (r.generated, -r.prompt_tokens, -r.arrival))
        self.running.remove(victim)
        self.tree.private -= victim.private_pages * self.limits.page_size
        if victim.last_node is not None:
            self.tree.unlock(victim.last_node)
        victim.private_pages = victim.kv_tokens = 0
        victim.last_node = None
        self.retractions += 1
        self._full = False
        decoded = sum(r.generated for r in self.running) + 20 * len(self.running)
        allowed = sum(r.max_new_tokens for r in self.running) + 1
        self.new_token_ratio = min(1.0, decoded / allowed)
        victim.processed_at_arrival = self.processed_tokens
        self.queue.add(victim)

    def _finish_decode(self, run: _Decode, now_s: float) -> list[SimRequest]:
        steps = run.steps
        self.decode_steps += steps
        first, least, fall_steps = self.limits.new_token_ratio
        fallen = self.new_token_ratio - steps * (first - least) / fall_steps
        self.new_token_ratio = max(least, fallen)
        finished = []
        for request in self.running:
            request.generated += steps
            request.kv_tokens += steps
            if request.generated >= request.output_tokens:
                finished.append(request)
        if finished:
            self.running = [r for r in self.running if r.generated < r.output_tokens]
            for request in finished:
                self._end(request, now_s)
        return finished
