"""Loads host nodes onto the device during pure-decode steps (paper 4.3).

Before a decode batch is launched, what the policy planned within S = min(S_a, S_bw) is put on the
load queue of stock HiCache. S_a is free device space and evictable retired cache, less what
requests will need soon (see :mod:`pbkv.sglang.reserve`); the eviction that a load may cause is held
to retired cache. S_bw is what the host-to-device link moves during one decode step, from running
averages that rank 0 measures and broadcasts, so that every rank plans alike.

A load makes its nodes part of the tree at once, while their bytes are still on the way. A request's
own load-back binds the wait to its batch; a prefetch has no batch, so whatever could read such a
node waits for the load first: every batch that prefills, and the batch after an insert.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pbkv.policy import CacheNode, PrefetchBudget, Tier
from pbkv.policy.pbkv import PbkvPolicy
from pbkv.sglang.averages import RunningAverage

if TYPE_CHECKING:
    from pbkv.sglang.cache import PolicyRadixCache
    from pbkv.sglang.record import Recorder

_FIRST_BUDGET_TOKENS = 2048
"""S_bw until a first load has told the bandwidth: enough for one node, paid once."""


@dataclass(slots=True)
class LinkMeasure:
    """Running averages of rank 0: host-to-device bandwidth and the time of a decode step."""

    tokens_per_s: RunningAverage
    step_s: RunningAverage
    last_decode_s: float | None = None

    def decode_started(self, now_s: float) -> None:
        """A decode batch starts; between two in a row lies one step."""
        if self.last_decode_s is not None:
            self.step_s.add(now_s - self.last_decode_s)
        self.last_decode_s = now_s

    def other_started(self) -> None:
        """A batch that is no decode starts."""
        self.last_decode_s = None

    def loaded(self, num_tokens: int, seconds: float) -> None:
        """A load of ``num_tokens`` took ``seconds``."""
        if seconds > 0.0:
            self.tokens_per_s.add(num_tokens / seconds)

    def budget_tokens(self) -> int:
        """S_bw = bandwidth * step duration, in tokens."""
        bandwidth, step_s = self.tokens_per_s.value, self.step_s.value
        if bandwidth is None or step_s is None:
            return _FIRST_BUDGET_TOKENS
        return int(bandwidth * step_s)


class EnginePrefetch:
    """Carries out the policy's prefetch plans in one scheduler process."""

    def __init__(self, policy: PbkvPolicy, recorder: Recorder, *, measures: bool) -> None:
        self._policy = policy
        self._recorder = recorder
        self.link = LinkMeasure(RunningAverage(), RunningAverage()) if measures else None
        self.bandwidth_tokens = 0
        # Loaded and not used yet, by node id.
        self._unused: dict[int, CacheNode] = {}
        # Loads whose bytes may still be on the way, as HiCache acknowledges them.
        self._acks: list[Any] = []
        self._wait_next = False

    # ---- around batches ----

    def before_batch(self, cache: PolicyRadixCache, *, decode: bool, needed_tokens: int) -> None:
        """Wait for loads that the batch could read; before a pure-decode batch, start more.

        ``needed_tokens`` of the device are left to the requests.
        """
        if self._acks:
            self._reap(wait=self._wait_next or not decode)
        self._wait_next = False
        if self.link is not None:
            if decode:
                self.link.decode_started(time.perf_counter())
            else:
                self.link.other_started()
        if decode:
            self._run(cache, needed_tokens)

    def _run(self, cache: PolicyRadixCache, needed_tokens: int) -> None:
        controller = cache.cache_controller
        if self.bandwidth_tokens <= 0 or controller.load_queue:
            return
        if not cache.has_free_load_back_slot():
            return
        start_s = time.perf_counter()
        budget = PrefetchBudget(
            free_tokens=cache.free_device_tokens() - needed_tokens + self._displaceable(cache),
            retired_tokens=min(
                self._policy.retired_tokens(Tier.DEVICE), cache.tree_core.full_evictable_size()
            ),
            bandwidth_tokens=self.bandwidth_tokens,
        )
        planned = self._policy.prefetcher.plan(budget)
        self._recorder.took("prefetch", time.perf_counter() - start_s)
        if planned:
            self._load(cache, planned)

    def _displaceable(self, cache: PolicyRadixCache) -> int:
        return int(self._policy.displaced_share * cache.device_capacity_tokens())

    def _load(self, cache: PolicyRadixCache, planned: Sequence[CacheNode]) -> None:
        start_s = time.perf_counter()
        loaded_tokens = 0
        with cache.evicting_at_most_active(self._displaceable(cache)):
            # The deepest first: one load-back brings a node and all that is missing above it.
            for node in reversed(planned):
                if Tier.DEVICE in self._policy.tiers_of(node):
                    continue
                chain = [*self._policy.missing_ancestors(node), node]
                if not cache.load_back(node.node_id):
                    continue
                for loaded in chain:
                    self._unused[loaded.node_id] = loaded
                    loaded_tokens += loaded.num_tokens
        if not loaded_tokens:
            return
        cache.ready_to_load_host_cache()
        self._recorder.prefetched(loaded_tokens)
        if not cache.loads_are_synchronous():
            self._acks.append(cache.cache_controller.ack_load_queue[-1])
        elif self.link is not None:
            self.link.loaded(loaded_tokens, time.perf_counter() - start_s)

    # ---- loads on the way ----

    def inserted(self) -> None:
        """A running request's KV cache entered the tree: it may have been given nodes whose bytes
        are still on the way."""
        self._wait_next = bool(self._acks)

    def _reap(self, *, wait: bool) -> None:
        """Drop finished loads and measure them; with ``wait``, block until all are finished."""
        pending = []
        for ack in self._acks:
            if wait:
                ack.finish_event.synchronize()
            elif not ack.finish_event.query():
                pending.append(ack)
                continue
            if self.link is not None and ack.timing_enabled:
                milliseconds = ack.start_event.elapsed_time(ack.finish_event)
                self.link.loaded(ack.num_tokens, milliseconds / 1000.0)
        self._acks = pending

    # ---- what became of it ----

    def used(self, path: Sequence[CacheNode]) -> None:
        """A request read ``path``: what was prefetched of it paid off."""
        tokens = sum(
            node.num_tokens for node in path if self._unused.pop(node.node_id, None) is not None
        )
        if tokens:
            self._recorder.prefetch_used(tokens)

    def released(self, node: CacheNode) -> None:
        """``node`` left the device; if nobody read it since its prefetch, that was for nothing."""
        if self._unused.pop(node.node_id, None) is not None:
            self._recorder.prefetch_wasted(node.num_tokens)

    def split(self, parent: CacheNode, child: CacheNode) -> None:
        """``child`` was cut, see :meth:`EvictionPolicy.on_split`."""
        if child.node_id in self._unused:
            self._unused[parent.node_id] = parent

    def clear(self) -> None:
        """The cache was emptied."""
        self._unused.clear()
        self._acks.clear()
        self._wait_next = False
