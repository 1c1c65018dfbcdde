"""A radix tree of any number of nodes, as 72 workflows of 8 agents would leave it, on a real cache.

Eight shared prompts, one per agent, and below them leaves of one call each. Nearly every node is a
leaf that may be evicted: the hardest case for every implementation.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np

from pbkv.events import WorkflowEvent
from pbkv.forecast import Forecast
from pbkv.invocation import Invocation
from pbkv.policy import EvictionPolicy
from pbkv.settings import PolicySettings
from services.bench.local_cache import LocalCache, LocalCacheOptions, TreeCore, build_local_cache

WORKFLOWS = tuple(f"bench:w{number}" for number in range(72))
AGENTS = tuple(f"agent{number}" for number in range(8))
PAGE_SIZE = 16
_NO_PROGRESS: Callable[[int], None] = lambda added: None  # noqa: E731


class SyntheticTree:
    """``nodes`` nodes of ``node_tokens`` tokens each, of one implementation."""

    def __init__(
        self,
        core: TreeCore,
        nodes: int,
        node_tokens: int,
        settings: PolicySettings,
        seed: int,
        progress: Callable[[int], None] = _NO_PROGRESS,
    ) -> None:
        self.core = core
        self.nodes = nodes
        self.node_tokens = node_tokens
        self._rng = np.random.default_rng(seed)
        self._calls = cycle(
            [(workflow, number) for workflow in WORKFLOWS for number in range(len(AGENTS))]
        )
        self._leaves = 0
        self._seq = 0
        self.local: LocalCache = build_local_cache(
            LocalCacheOptions(
                core,
                kv_tokens=(nodes + 8) * node_tokens,
                page_size=PAGE_SIZE,
                context_length=2 * node_tokens,
                settings=settings,
            )
        )
        self.cache = self.local.cache
        self._prompt_slots: dict[int, Any] = {}
        self._tail = array("q", range(1, node_tokens))
        if self.policy is not None:
            for workflow in WORKFLOWS:
                self.invoke(workflow, AGENTS[0])
        for start in range(0, nodes - len(AGENTS), 500):
            count = min(500, nodes - len(AGENTS) - start)
            self.add_leaves(count)
            progress(count)
        for workflow in WORKFLOWS:
            self.apply_forecast(workflow)

    @property
    def policy(self) -> EvictionPolicy | None:
        """The plug-in's policy; a stock tree has none."""
        policy: EvictionPolicy | None = None
        if self.core is TreeCore.PBKV:
            policy = self.cache.binding.policy
        return policy

    def add_leaves(self, count: int) -> None:
        """Insert the KV cache of ``count`` calls, each of the next workflow and agent in turn."""
        slots = self.local.allocator.alloc(count * self.node_tokens)
        for own in slots.split(self.node_tokens):
            workflow, number = next(self._calls)
            last_node = self._insert(number, self._leaves, own)
            self._leaves += 1
            if self.policy is not None:
                invocation = Invocation(workflow, AGENTS[number], at_s=0.0, seq=self._seq)
                self.policy.on_call_finished(self.cache._path(last_node), invocation)

    def _insert(self, number: int, leaf: int, slots: Any) -> int:
        """Insert a leaf below the prompt of an agent; the tree keeps all slots it is given."""
        import torch
        from sglang.srt.mem_cache.base_prefix_cache import InsertParams
        from sglang.srt.mem_cache.radix_cache import RadixKey

        known = number in self._prompt_slots
        if not known:
            self._prompt_slots[number] = self.local.allocator.alloc(self.node_tokens)
        result = self.cache.insert(
            InsertParams(
                key=RadixKey(self._block(-1 - number) + self._block(leaf)),
                value=torch.cat((self._prompt_slots[number], slots)),
                prev_prefix_len=self.node_tokens if known else 0,
            )
        )
        last_node: int = result.last_device_node
        return last_node

    def invoke(self, workflow: str, agent: str) -> None:
        """A call of the workflow begins."""
        if self.policy is not None:
            self._seq += 1
            invocation = Invocation(workflow, agent, at_s=0.0, seq=self._seq)
            self.policy.on_event(WorkflowEvent.invoke(invocation))

    def forecast(self, workflow: str) -> Forecast:
        """A random forecast of the workflow over the next three steps."""
        table = self._rng.dirichlet(np.ones(len(AGENTS) + 1), size=3).astype(np.float32)
        return Forecast(workflow, AGENTS, table, 0.0, "bench")

    def apply_forecast(self, workflow: str) -> None:
        if self.policy is not None:
            self.policy.on_forecast(self.forecast(workflow))

    def evict(self, num_tokens: int) -> Any:
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        return self.cache.evict(EvictParams(num_tokens=num_tokens))

    def _block(self, number: int) -> array[int]:
        """Tokens of one node; the first ones tell it from every other."""
        return array("q", [number]) + self._tail
