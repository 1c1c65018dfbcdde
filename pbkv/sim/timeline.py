"""The hit rate of a run over time, and when what matters happened (the paper's Figure 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pbkv.policy import EvictionReason
from pbkv.sim.engine import SimulatedEngine
from pbkv.sim.loop import LoopHooks
from pbkv.sim.request import SimRequest


@dataclass(slots=True)
class Timeline:
    """Prompt tokens, and those found on the device, by when their call was admitted.

    ``first_eviction_s`` is the end of the last call before the first eviction showed; an event that
    never came has None. ``last_start_s`` is when the last workflow sent its first call: from then
    on the load falls.
    """

    bin_s: float
    prompt_tokens: list[int] = field(default_factory=list)
    device_tokens: list[int] = field(default_factory=list)
    first_eviction_s: float | None = None
    first_end_s: float | None = None
    last_start_s: float = 0.0
    _last_s: float = 0.0

    def hooks(self) -> LoopHooks:
        """What a loop must call for this to be filled."""
        return LoopHooks(
            on_call=self._on_call, on_workflow=self._on_workflow, after_step=self._after_step
        )

    def row(self) -> dict[str, Any]:
        """The keys that a ``simulate`` row has more."""
        return {
            "timeline_bin_s": self.bin_s,
            "timeline_prompt_tokens": self.prompt_tokens,
            "timeline_device_tokens": self.device_tokens,
            "first_eviction_s": self.first_eviction_s,
            "first_end_s": self.first_end_s,
            "last_start_s": self.last_start_s,
        }

    def _on_call(self, request: SimRequest) -> None:
        self._last_s = request.finished_s
        if request.invocation.step == 1:
            self.last_start_s = max(self.last_start_s, request.arrived_s)
        place = int(request.admitted_s / self.bin_s)
        missing = place + 1 - len(self.prompt_tokens)
        self.prompt_tokens += [0] * missing
        self.device_tokens += [0] * missing
        self.prompt_tokens[place] += request.prompt_tokens
        self.device_tokens[place] += request.cached_device_tokens

    def _on_workflow(self) -> None:
        if self.first_end_s is None:
            self.first_end_s = self._last_s

    def _after_step(self, engine: SimulatedEngine) -> None:
        if self.first_eviction_s is None and any(
            tokens for why, tokens in engine.tree.evicted.items() if why is not EvictionReason.HOST
        ):
            self.first_eviction_s = self._last_s
