"""Drives SGLang's real radix cache with the plug-in, as its scheduler does, without a server.

Requests are the engine's own; what is left out is the model, whose output is drawn at random.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pbkv.events import EventKind, WorkflowEvent
from pbkv.forecast import Forecast
from pbkv.invocation import PARAMS_KEY, Invocation
from pbkv.policy import CacheNode, EvictionReason, Tier
from pbkv.settings import PolicySettings
from pbkv.sglang.record import Recorder
from services.bench.local_cache import LocalCacheOptions, TreeCore, build_local_cache


class CountingRecorder(Recorder):
    """Tokens that the plug-in says it evicted, by tier and by reason."""

    def __init__(self) -> None:
        self.by_tier: Counter[Tier] = Counter()
        self.by_reason: Counter[EvictionReason] = Counter()
        self.active_tokens = 0
        self.prefetched_tokens = 0

    def evicted(self, node: CacheNode, tier: Tier, reason: EvictionReason, num_tokens: int) -> None:
        assert (reason is EvictionReason.HOST) == (tier is Tier.HOST)
        if tier is Tier.DEVICE and not node.retired:
            self.active_tokens += num_tokens
        self.by_tier[tier] += num_tokens
        self.by_reason[reason] += num_tokens

    def prefetched(self, num_tokens: int) -> None:
        self.prefetched_tokens += num_tokens


@dataclass
class Harness:
    """One cache, the requests that run on it, and a clock that counts steps."""

    settings: PolicySettings
    kv_tokens: int
    page_size: int
    host_ratio: float
    now_s: float = 0.0
    seq: int = 0
    running: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.local = build_local_cache(
            LocalCacheOptions(
                TreeCore.PBKV,
                kv_tokens=self.kv_tokens,
                page_size=self.page_size,
                host_ratio=self.host_ratio,
                settings=self.settings,
            )
        )
        self.cache = self.local.cache
        self.binding = self.cache.binding
        self.policy = self.binding.policy
        self.core = self.cache.tree_core
        self.recorder = CountingRecorder()
        self.binding.recorder = self.recorder
        for component in self.cache.components.values():
            component._recorder = self.recorder
        if self.binding.prefetch is not None:
            self.binding.prefetch._recorder = self.recorder
        self.displaced_tokens = 0
        self._requests = 0

    def close(self) -> None:
        if self.host_ratio:
            self.local.close()

    # ---- requests ----

    def start(
        self, prompt: list[int], chunk: int, invocation: Invocation | None, end: bool = False
    ) -> Any | None:
        """Announce, match, load back, lock, allocate the first chunk; None if it does not fit."""
        req = self._request(prompt, invocation, end)
        if invocation is not None:
            self.policy.on_event(WorkflowEvent.invoke(invocation))
        req.init_next_round_input(self.cache)
        if req.host_hit_length:
            self._load_back(req)
        # What the request itself is about to read is not there to be evicted for it.
        req.lock = self.cache.lock(req.last_node)
        target = min(len(prompt), req.prefix_len + chunk)
        if not self._fits(target - req.prefix_len):
            self.cache.unlock(req.lock)
            return None
        self._extend(req, target)
        self.running.append(req)
        return req

    def advance(self, req: Any, chunk: int) -> None:
        """The next chunk of a prefill, or one more token of output."""
        from sglang.srt.mem_cache.common import checkpoint_kv_cache

        if req.extend_end < len(req.origin_input_ids):
            checkpoint_kv_cache(req, self.cache)
            target = min(len(req.origin_input_ids), req.extend_end + chunk)
        else:
            if not req.output_ids:
                checkpoint_kv_cache(req, self.cache)
            req.output_ids.append(len(req.output_ids) % 3)
            req.refresh_fill_ids()
            req.prefix_len = req.extend_end
            target = req.extend_end + 1
        if self._fits(target - req.prefix_len):
            self._extend(req, target)
        else:
            self.retract(req)

    def finish(self, req: Any) -> None:
        from sglang.srt.managers.schedule_batch import FINISH_LENGTH

        self._end(req, FINISH_LENGTH(length=len(req.output_ids)), checkpoint=True)

    def abort(self, req: Any, checkpoint: bool) -> None:
        from sglang.srt.managers.schedule_batch import FINISH_ABORT

        self._end(req, FINISH_ABORT("client went away"), checkpoint=checkpoint)

    def retract(self, req: Any) -> None:
        """Out of memory: the request gives its cache back and would start anew."""
        self._end(req, None, checkpoint=False)

    def match(self, tokens: list[int]) -> None:
        """A look-up without a request; it may split a node."""
        from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams
        from sglang.srt.mem_cache.radix_cache import RadixKey

        self.cache.match_prefix(MatchPrefixParams(key=RadixKey(array("q", tokens))))

    # ---- memory ----

    def evict(self, num_tokens: int) -> None:
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        before = self.recorder.by_tier[Tier.DEVICE]
        freed = self.cache.evict(EvictParams(num_tokens=num_tokens)).num_tokens_evicted
        assert self.recorder.by_tier[Tier.DEVICE] - before == freed

    def evict_host(self, num_tokens: int) -> None:
        before = self.recorder.by_tier[Tier.HOST]
        freed = self.cache.evict_host(num_tokens)
        assert self.recorder.by_tier[Tier.HOST] - before == freed

    def poll(self) -> None:
        """What the scheduler does every step with the host tier: send, and acknowledge."""
        if self.cache.cache_controller is None:
            return
        self.cache.ready_to_load_host_cache()
        self.cache.check_hicache_events()

    def prefetch(self, number: int) -> None:
        """Load a host node that no request asked for, within free space."""
        hosted = [
            node
            for node in self.nodes()
            if node.evicted and node.backuped and not self._locked(node)
        ]
        if not hosted:
            return
        node = hosted[number % len(hosted)]
        missing, above = 0, node
        while above.evicted:
            missing, above = missing + len(above.key), above.parent
        if missing <= self.local.allocator.available_size():
            self.cache.load_back(node.id)

    def decode(self, bandwidth_tokens: int) -> None:
        """A decode batch is about to start: the prefetcher may load behind it, of active cache it
        displaces at most the share that its policy allows."""
        prefetch = self.binding.prefetch
        if prefetch is None:
            return
        before = self.recorder.active_tokens
        prefetch.bandwidth_tokens = bandwidth_tokens
        prefetch.before_batch(self.cache, decode=True, needed_tokens=0)
        displaced = self.recorder.active_tokens - before
        assert displaced <= self.policy.displaced_share * self.kv_tokens
        self.displaced_tokens += displaced

    def request(self, prompt: list[int], invocation: Invocation | None) -> Any:
        """A request that waits in the engine's queue."""
        return self._request(prompt, invocation, end=False)

    def reset(self) -> None:
        """As the scheduler flushes: only when nothing runs."""
        for req in list(self.running):
            self.abort(req, checkpoint=False)
        self.poll()
        self.cache.reset()
        self.local.request_pool.clear()
        self.local.allocator.clear()

    # ---- workflows ----

    def invocation(self, workflow: str, agent: str) -> Invocation:
        self.seq += 1
        return Invocation(workflow, agent, at_s=self.now_s, seq=self.seq)

    def terminate(self, workflow: str, age: int) -> None:
        """A terminate event, ``age`` calls late."""
        self.policy.on_event(
            WorkflowEvent(EventKind.TERMINATE, workflow, self.now_s, seq=max(0, self.seq - age))
        )

    def expire(self) -> None:
        busy = {
            invocation.workflow_id
            for req in self.running
            if (invocation := req._harness_invocation) is not None
        }
        self.policy.expire(self.now_s, busy.__contains__)

    def forecast(self, workflow: str, agents: tuple[str, ...], table: np.ndarray) -> None:
        self.policy.on_forecast(
            Forecast(workflow, agents, table.astype(np.float32), self.now_s, "test")
        )

    # ---- what the tree says ----

    def nodes(self) -> list[Any]:
        return [n for n in self.core._collect_all_nodes() if n is not self.core.root_node]

    @staticmethod
    def _locked(node: Any) -> bool:
        return any(data.lock_ref or data.host_lock_ref for data in node.component_data)

    # ---- the scheduler's parts ----

    def _request(self, prompt: list[int], invocation: Invocation | None, end: bool) -> Any:
        from sglang.srt.managers.schedule_batch import Req
        from sglang.srt.sampling.sampling_params import SamplingParams

        self._requests += 1
        custom = None
        if invocation is not None:
            custom = {PARAMS_KEY: invocation.to_params() | ({"end": True} if end else {})}
        req = Req(
            rid=f"r{self._requests}",
            origin_input_text="",
            origin_input_ids=array("q", prompt),
            sampling_params=SamplingParams(max_new_tokens=64, custom_params=custom),
        )
        req._harness_invocation = invocation
        return req

    def _load_back(self, req: Any) -> None:
        from sglang.srt.mem_cache.base_prefix_cache import InitLoadBackParams

        host_lock = self.cache.inc_host_lock_ref(req.best_match_node).to_dec_params()
        lock = self.cache.lock(req.best_match_node)
        loaded, req.last_node = self.cache.init_load_back(
            InitLoadBackParams(
                best_match_node=req.best_match_node, host_hit_length=req.host_hit_length, req=req
            )
        )
        self.cache.unlock(lock)
        self.cache.dec_host_lock_ref(req.best_match_node, host_lock)
        req.host_loaded_length = loaded
        req.prefix_len += loaded
        req.kv.cache_protected_len = req.prefix_len

    def _fits(self, num_tokens: int) -> bool:
        free = self.local.allocator.available_size() + self.cache.evictable_size()
        row = self.local.request_pool.available_size()
        return row > 0 and num_tokens + 3 * self.page_size <= free

    def _extend(self, req: Any, target: int) -> None:
        """Allocate slots for the tokens from ``req.prefix_len`` up to ``target``."""
        from sglang.srt.mem_cache.allocation import (
            alloc_paged_token_slots_extend,
            alloc_token_slots,
        )

        pool = self.local.request_pool
        prefix_len = req.prefix_len
        if req.kv.holds_kv:
            prefix = pool.req_to_token[req.kv.req_pool_idx, :prefix_len].to(torch.int64)
        else:
            prefix = self.cache.prefix_device_indices(req)
            assert pool.alloc([req]) is not None
        if self.page_size == 1:
            slots = alloc_token_slots(self.cache, target - prefix_len)
        else:
            lens = [torch.tensor([n], dtype=torch.int64) for n in (prefix_len, target)]
            last = prefix[-1:] if prefix_len else torch.full((1,), -1, dtype=torch.int64)
            slots = alloc_paged_token_slots_extend(
                self.cache, lens[0], lens[0], lens[1], lens[1], last, target - prefix_len
            )
        pool.write((req.kv.req_pool_idx, slice(0, prefix_len)), prefix)
        pool.write((req.kv.req_pool_idx, slice(prefix_len, target)), slots.to(torch.int32))
        req.extend_end = target
        req.kv.kv_allocated_len = req.kv.kv_committed_len = target

    def _end(self, req: Any, reason: Any, *, checkpoint: bool) -> None:
        from sglang.srt.mem_cache.common import release_kv_cache

        req.finished_reason = reason
        release_kv_cache(req, self.cache, checkpoint=checkpoint)
        self.running.remove(req)
