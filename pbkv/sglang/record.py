"""What the plug-in reports of its work: Prometheus metrics, and a log of evictions for tests."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from pbkv.policy import CacheNode, EvictionPolicy, EvictionReason, Tier

MAX_AGENT_LABELS = 100
"""Distinct agent names that get a label of their own; the rest share ``other``."""

_OP_BUCKETS_S = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)


class ForecastOutcome(StrEnum):
    """What became of a forecast that was asked for and not replaced by a newer one."""

    APPLIED = "applied"
    LATE = "late"
    """The workflow had called again or ended."""
    FAILED = "failed"
    """The predictor raised or answered nonsense."""


class Recorder:
    """Counts nothing: for ranks other than the first, and for an engine without metrics."""

    def evicted(self, node: CacheNode, tier: Tier, reason: EvictionReason, num_tokens: int) -> None:
        """``num_tokens`` of ``node`` were freed on ``tier``."""

    def finished(self, agent: str, prompt: int, cached_device: int, cached_host: int) -> None:
        """A request finished; counts are prompt tokens."""

    def prefetched(self, num_tokens: int) -> None:
        """Tokens were loaded onto the device ahead of any request."""

    def prefetch_used(self, num_tokens: int) -> None:
        """Prefetched tokens were read by a request."""

    def prefetch_wasted(self, num_tokens: int) -> None:
        """Prefetched tokens left the device unread."""

    def forecast(self, outcome: ForecastOutcome, count: int = 1) -> None:
        """What became of ``count`` forecasts."""

    def forecast_accuracy(self, step: int, accuracy: float) -> None:
        """Share of the recent forecasts whose likeliest agent at ``step`` was right."""

    def forecast_calibration_error(self, step: int, error: float) -> None:
        """Expected calibration error of the recent forecasts at ``step``."""

    def shadow_accuracy(self, step: int, accuracy: float) -> None:
        """As :meth:`forecast_accuracy`, of the predictor that does not act."""

    def shadow_calibration_error(self, step: int, error: float) -> None:
        """As :meth:`forecast_calibration_error`, of the predictor that does not act."""

    def predictor_reload(self, predictor: str, *, applied: bool) -> None:
        """A changed checkpoint of ``predictor`` (served or shadow) was taken into use, or not."""

    def hidden_state(self, *, captured: bool) -> None:
        """The hidden state of a prompt was captured, or was not to be had."""

    def hidden_states_traced(self, outcome: str, count: int) -> None:
        """What became of the hidden states of ``count`` traced requests."""

    def rejected_event(self) -> None:
        """A lifecycle event could not be read."""

    def sampled(self, policy: EvictionPolicy, total_tokens: int) -> None:
        """Publish the sizes that change all the time."""

    def took(self, op: str, seconds: float) -> None:
        """One policy operation took ``seconds``."""


class PrometheusRecorder(Recorder):
    """Metrics of design section 7, in the process-shared files that the engine's /metrics reads."""

    def __init__(self, replica: str) -> None:
        # Imported late: the library fixes its multi-process mode by the environment at import.
        from prometheus_client import Counter, Gauge, Histogram

        def gauge(name: str, text: str, label: str) -> Any:
            return Gauge(name, text, ["replica", label], multiprocess_mode="mostrecent")

        self._replica = replica or "local"
        self._agents: set[str] = set()
        self._prompt = Counter(
            "pbkv_prompt_tokens_total", "Prompt tokens of finished requests", ["replica", "agent"]
        )
        self._cached = Counter(
            "pbkv_cached_tokens_total",
            "Prompt tokens found in the KV cache, by tier",
            ["replica", "agent", "tier"],
        )
        self._evicted = Counter(
            "pbkv_evicted_tokens_total", "Tokens evicted, by reason", ["replica", "reason"]
        )
        self._rejected = Counter(
            "pbkv_rejected_events_total", "Lifecycle events that could not be read", ["replica"]
        )
        self._prefetched, self._prefetch_used, self._prefetch_wasted = (
            Counter(f"pbkv_{name}_tokens_total", text, ["replica"])
            for name, text in (
                ("prefetched", "Tokens loaded onto the device ahead of any request"),
                ("prefetch_used", "Prefetched tokens that a request read"),
                ("prefetch_wasted", "Prefetched tokens that left the device unread"),
            )
        )
        self._forecasts = Counter(
            "pbkv_forecasts_total", "Forecasts, by what became of them", ["replica", "outcome"]
        )
        self._hidden_states = Counter(
            "pbkv_hidden_states_total",
            "Prompts whose hidden state a predictor wanted, by whether it was captured",
            ["replica", "captured"],
        )
        self._traced_states = Counter(
            "pbkv_trace_hidden_states_total",
            "Hidden states of traced requests, by what became of them",
            ["replica", "outcome"],
        )
        self._reloads = Counter(
            "pbkv_predictor_reloads_total",
            "Changed checkpoints, by predictor and by what became of them",
            ["replica", "predictor", "outcome"],
        )
        self._accuracy, self._calibration, self._shadow_accuracy, self._shadow_calibration = (
            gauge(f"pbkv_{name}", f"{text}, by step ahead", "k")
            for name, text in (
                ("forecast_accuracy", "Top-1 accuracy of recent forecasts"),
                ("forecast_calibration_error", "Expected calibration error of recent forecasts"),
                ("shadow_forecast_accuracy", "Top-1 accuracy of the shadow's forecasts"),
                (
                    "shadow_forecast_calibration_error",
                    "Expected calibration error of the shadow's forecasts",
                ),
            )
        )
        self._workflows = gauge("pbkv_workflows", "Known workflows, by state", "state")
        self._kv_tokens = gauge("pbkv_kv_tokens", "Tokens of device KV cache, by state", "state")
        self._seconds = Histogram(
            "pbkv_policy_seconds",
            "Time of one policy operation",
            ["replica", "op"],
            buckets=_OP_BUCKETS_S,
        )
        for reason in EvictionReason:
            self._evicted.labels(self._replica, reason.value)

    def evicted(self, node: CacheNode, tier: Tier, reason: EvictionReason, num_tokens: int) -> None:
        self._evicted.labels(self._replica, reason.value).inc(num_tokens)

    def finished(self, agent: str, prompt: int, cached_device: int, cached_host: int) -> None:
        agent = self._agent_label(agent)
        self._prompt.labels(self._replica, agent).inc(prompt)
        self._cached.labels(self._replica, agent, Tier.DEVICE.value).inc(cached_device)
        self._cached.labels(self._replica, agent, Tier.HOST.value).inc(cached_host)

    def prefetched(self, num_tokens: int) -> None:
        self._prefetched.labels(self._replica).inc(num_tokens)

    def prefetch_used(self, num_tokens: int) -> None:
        self._prefetch_used.labels(self._replica).inc(num_tokens)

    def prefetch_wasted(self, num_tokens: int) -> None:
        self._prefetch_wasted.labels(self._replica).inc(num_tokens)

    def forecast(self, outcome: ForecastOutcome, count: int = 1) -> None:
        self._forecasts.labels(self._replica, outcome.value).inc(count)

    def forecast_accuracy(self, step: int, accuracy: float) -> None:
        self._accuracy.labels(self._replica, str(step)).set(accuracy)

    def forecast_calibration_error(self, step: int, error: float) -> None:
        self._calibration.labels(self._replica, str(step)).set(error)

    def shadow_accuracy(self, step: int, accuracy: float) -> None:
        self._shadow_accuracy.labels(self._replica, str(step)).set(accuracy)

    def shadow_calibration_error(self, step: int, error: float) -> None:
        self._shadow_calibration.labels(self._replica, str(step)).set(error)

    def predictor_reload(self, predictor: str, *, applied: bool) -> None:
        outcome = "applied" if applied else "refused"
        self._reloads.labels(self._replica, predictor, outcome).inc()

    def hidden_states_traced(self, outcome: str, count: int) -> None:
        self._traced_states.labels(self._replica, outcome).inc(count)

    def hidden_state(self, *, captured: bool) -> None:
        self._hidden_states.labels(self._replica, str(captured).lower()).inc()

    def rejected_event(self) -> None:
        self._rejected.labels(self._replica).inc()

    def sampled(self, policy: EvictionPolicy, total_tokens: int) -> None:
        used = policy.stored_tokens(Tier.DEVICE)
        retired = policy.retired_tokens(Tier.DEVICE)
        for state, value in (
            ("total", total_tokens),
            ("used", used),
            ("active", used - retired),
            ("retired", retired),
        ):
            self._kv_tokens.labels(self._replica, state).set(value)
        self._workflows.labels(self._replica, "active").set(policy.workflows.num_active)
        self._workflows.labels(self._replica, "retired").set(policy.workflows.num_retired)

    def took(self, op: str, seconds: float) -> None:
        self._seconds.labels(self._replica, op).observe(seconds)

    def _agent_label(self, agent: str) -> str:
        # Names come from clients: an unbounded label would be an unbounded number of files.
        if agent in self._agents or len(self._agents) < MAX_AGENT_LABELS:
            self._agents.add(agent)
            return agent
        return "other"


class EvictionLog:
    """A recorder that also writes one JSON line per eviction. One file per rank."""

    def __init__(self, path: Path, inner: Recorder) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._inner = inner
        self._file: TextIO = path.open("w", buffering=1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def evicted(self, node: CacheNode, tier: Tier, reason: EvictionReason, num_tokens: int) -> None:
        line = {
            "node": node.node_id,
            "tier": tier.value,
            "reason": reason.value,
            "tokens": num_tokens,
            "workflows": sorted(node.accesses),
        }
        self._file.write(json.dumps(line) + "\n")
        self._inner.evicted(node, tier, reason, num_tokens)
