"""What an engine says of itself on ``GET /metrics``, as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

# The engine exports hundreds of lines; only these families are parsed, once a second.
_KV_TOKENS = "pbkv_kv_tokens"
_WORKFLOWS = "pbkv_workflows"
_PROMPT = "pbkv_prompt_tokens_total"
_CACHED = "pbkv_cached_tokens_total"
_ACCURACY = "pbkv_forecast_accuracy"
_RUNNING = "sglang:num_running_reqs"
_QUEUED = "sglang:num_queue_reqs"
_FAMILIES = (_KV_TOKENS, _WORKFLOWS, _PROMPT, _CACHED, _ACCURACY, _RUNNING, _QUEUED)


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """One reading. Everything is 0 until the engine has reported it.

    ``kv_tokens_used`` = ``kv_tokens_active`` + ``kv_tokens_retired``, on the device.
    ``workflows`` counts the active ones. ``hit_rate`` is device-cached over prompt tokens since
    the engine started, as in the paper. ``forecast_accuracy`` is that of the next agent, None
    until a forecast was judged.
    """

    kv_tokens_total: int = 0
    kv_tokens_used: int = 0
    kv_tokens_active: int = 0
    kv_tokens_retired: int = 0
    workflows: int = 0
    hit_rate: float = 0.0
    forecast_accuracy: float | None = None
    running_requests: int = 0
    queued_requests: int = 0

    @property
    def busy(self) -> bool:
        """Whether anything would be lost if the engine ended now."""
        return self.workflows > 0 or self.running_requests > 0 or self.queued_requests > 0

    def fraction(self, tokens: int) -> float:
        """``tokens`` over the size of the device pool, 0 while that is unknown."""
        return tokens / self.kv_tokens_total if self.kv_tokens_total else 0.0


def parse_load(text: str) -> EngineLoad:
    """Read the exposition text of an engine.

    Raises ValueError if a line of a family read here is malformed.
    """
    sums: dict[str, float] = {}
    for name, labels, value in _samples(text):
        if name in (_KV_TOKENS, _WORKFLOWS):
            key = f"{name}:{labels.get('state', '')}"
        elif name == _ACCURACY:
            key = f"{name}:{labels.get('k', '')}"
        elif name == _CACHED:
            key = f"{name}:{labels.get('tier', '')}"
        else:
            key = name
        sums[key] = sums.get(key, 0.0) + value
    prompt = sums.get(_PROMPT, 0.0)
    return EngineLoad(
        kv_tokens_total=int(sums.get(f"{_KV_TOKENS}:total", 0)),
        kv_tokens_used=int(sums.get(f"{_KV_TOKENS}:used", 0)),
        kv_tokens_active=int(sums.get(f"{_KV_TOKENS}:active", 0)),
        kv_tokens_retired=int(sums.get(f"{_KV_TOKENS}:retired", 0)),
        workflows=int(sums.get(f"{_WORKFLOWS}:active", 0)),
        hit_rate=sums.get(f"{_CACHED}:device", 0.0) / prompt if prompt else 0.0,
        forecast_accuracy=sums.get(f"{_ACCURACY}:1"),
        running_requests=int(sums.get(_RUNNING, 0)),
        queued_requests=int(sums.get(_QUEUED, 0)),
    )


def _samples(text: str) -> Iterable[tuple[str, dict[str, str], float]]:
    wanted = [line for line in text.splitlines() if line.startswith(_FAMILIES)]
    for family in text_string_to_metric_families("\n".join(wanted) + "\n"):
        for sample in family.samples:
            if sample.name in _FAMILIES:
                yield sample.name, sample.labels, sample.value
