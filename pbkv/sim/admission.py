"""Who joins the next prefill batch: SGLang's admission control, in its own terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pbkv.sim.request import SimRequest

if TYPE_CHECKING:
    from pbkv.sim.engine import SimulatedEngine

CLIP_NEW_TOKENS = 4096
"""SGLang reserves no more than this for a reply that may be longer."""


class PrefillAdder:
    """The budgets of one prefill batch."""

    def __init__(self, engine: SimulatedEngine) -> None:
        limits = engine.limits
        self._engine = engine
        self._page = limits.page_size
        self.chunk_left = limits.chunked_prefill_size
        self.input_left = limits.max_prefill_tokens
        self.parts: list[tuple[SimRequest, int]] = []
        self.new_tokens = 0
        self.loaded_tokens = 0
        self.no_memory = False
        self.chunked: SimRequest | None = None
        # What running requests may still write, and what this batch will take.
        self._promised = 0.0
        for request in engine.running:
            self._promised += promised_reply(request, engine.new_token_ratio)

    def available(self) -> float:
        """Tokens that admission may still promise."""
        tree = self._engine.tree
        return tree.free_tokens + tree.evictable - self._promised

    def go_on(self, request: SimRequest) -> None:
        """The next chunk of a prompt."""
        rest = request.input_tokens - request.kv_tokens
        extend = min(rest, self.chunk_left)
        self._commit(request, extend, chunked=extend < rest)

    def add(self, request: SimRequest) -> bool:
        """Admit a waiting request; whether it was."""
        tree, page = self._engine.tree, self._page
        match = tree.match(request.ids, (request.input_tokens - 1) // page)
        tree.settle(match)
        tree.touch(match.end)
        device_end = match.device_end
        tree.lock(device_end)
        extend = request.input_tokens - match.matched_pages * page
        host_tokens = match.host_pages * page
        max_new = min(request.max_new_tokens - request.generated, CLIP_NEW_TOKENS)
        if extend + host_tokens + max_new + page >= self.available():
            tree.unlock(device_end)
            self.no_memory = True
            return False
        rest = extend
        if -(-extend // page) * page > self.chunk_left:
            extend = self.chunk_left // page * page
            if extend <= 0:
                tree.unlock(device_end)
                return False
        last = device_end
        if host_tokens:
            if tree.make_room(host_tokens):
                self.loaded_tokens += tree.load_back(match.end)
                last = match.end
                tree.lock(last)
                tree.unlock(device_end)
            else:
                tree.unlock(device_end)
                self.no_memory = True
                return False
        request.last_node = last
        request.kv_tokens = match.matched_pages * page
        if request.admitted_s < 0.0:
            request.cached_device_tokens = match.device_pages * page
            request.cached_host_tokens = host_tokens
        self._commit(request, extend, chunked=extend < rest)
        return True

    def _commit(self, request: SimRequest, extend: int, *, chunked: bool) -> None:
        page = self._page
        taken = -(-extend // page) * page
        max_new = min(request.max_new_tokens - request.generated, CLIP_NEW_TOKENS)
        self._promised += taken + page + (0 if chunked else max_new)
        self.chunk_left -= taken
        self.input_left -= taken
        self.new_tokens += extend
        self.parts.append((request, extend))
        if chunked:
            self.chunked = request


def promised_reply(request: SimRequest, new_token_ratio: float) -> float:
    """Tokens that a running request is taken to write yet. A reply whose length the client fixed
    counts in full."""
    left = min(request.max_new_tokens - request.generated, CLIP_NEW_TOKENS)
    exact = request.max_new_tokens == request.output_tokens
    return left * (1.0 if exact else new_token_ratio)
