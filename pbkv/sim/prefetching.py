"""Loads host nodes behind decode steps, within the budget of the paper's section 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pbkv.policy import PrefetchBudget, Prefetcher, Tier
from pbkv.sim.admission import promised_reply

if TYPE_CHECKING:
    from pbkv.sim.engine import SimulatedEngine
    from pbkv.sim.node import TreeNode


@runtime_checkable
class PrefetchingPolicy(Protocol):
    """A policy that loads from the host: ``pbkv`` and its kin, and the clairvoyant one."""

    prefetcher: Prefetcher

    @property
    def displaced_share(self) -> float:
        """Share of the device pool that a prefetch may displace of active cache, 0 to 1."""
        ...

    def retired_tokens(self, tier: Tier) -> int:
        """Tokens of retired KV cache on ``tier``."""
        ...


def prefetch(engine: SimulatedEngine, policy: PrefetchingPolicy, decode_s: float) -> int:
    """Load what ``policy`` plans for ``decode_s`` of pure decode; tokens that were loaded."""
    tree = engine.tree
    displaceable = int(policy.displaced_share * tree.device_tokens)
    budget = PrefetchBudget(
        free_tokens=tree.free_tokens - needed_soon(engine) + displaceable,
        retired_tokens=min(policy.retired_tokens(Tier.DEVICE), tree.evictable),
        bandwidth_tokens=int(decode_s * engine.costs.load_tokens_per_s),
    )
    loaded_tokens = 0
    # The deepest first: one load brings a node and all that is missing above it.
    for planned in reversed(policy.prefetcher.plan(budget)):
        node: TreeNode = planned  # type: ignore[assignment]
        if node.on_device:
            continue
        needed_tokens = 0
        above = node
        while not above.on_device:
            needed_tokens += above.num_tokens
            above = above.parent  # type: ignore[assignment]
        tree.lock(above)
        if tree.make_room(needed_tokens, displaceable):
            loaded_tokens += tree.load_back(node)
        tree.unlock(above)
    return loaded_tokens


def needed_soon(engine: SimulatedEngine) -> int:
    """Device tokens that requests will take beside what they hold, which a prefetch leaves alone:
    the replies of those that run, and what the next prefill batch lacks."""
    limits = engine.limits
    page = limits.page_size
    reply = sum(promised_reply(r, engine.new_token_ratio) + page for r in engine.running)
    prompts = 0
    if engine.chunked is not None:
        prompts += engine.chunked.input_tokens - engine.chunked.kv_tokens
    places = max(0, limits.max_running_requests - len(engine.running)) + 1
    for request in engine.queue.requests[:places]:
        waiting = request.waiting
        cached = 0 if waiting is None else waiting.match.device_pages * page
        prompts += request.input_tokens - cached + page
        if prompts >= limits.chunked_prefill_size:
            break
    return int(reply) + min(prompts, limits.chunked_prefill_size)
