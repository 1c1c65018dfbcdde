"""Prometheus metrics of one router. Every label has a bounded set of values."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from router.call import ENGINE_PATHS
from router.placement import Candidate

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_STATES = ("starting", "ready", "draining")

# How :meth:`RouterMetrics.counted` names its counts: these, or these and a label's value.
STATUS, BROKEN, MOVED, TTFT = "status:", "broken:", "moved:", "ttft:"
RETRIED, PROMPT, CACHED = "retried", "prompt", "cached"

OTHER_ROUTE = "other"
"""Label of every path that is no route of ours: clients must not invent label values."""


class RouterMetrics:
    """The metrics, in a registry of their own: several routers may live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.request_seconds = Histogram(
            "pbkv_router_request_seconds",
            "From the request's arrival to the end of its answer",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.ttft_seconds = Histogram(
            "pbkv_router_ttft_seconds",
            "From the request's arrival to the first byte of a streamed answer",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.requests = Counter(
            "pbkv_router_requests_total",
            "Answers by route and status; 499 for a client that left before its answer began",
            ["route", "status"],
            registry=self.registry,
        )
        self.broken_answers = Counter(
            "pbkv_router_broken_answers_total",
            "Answers that began and did not reach their end",
            ["reason"],
            registry=self.registry,
        )
        self.keep_alives = Counter(
            "pbkv_router_keep_alives_total",
            "Comment lines sent on streams whose first token was waited for",
            registry=self.registry,
        )
        self.pin_moves = Counter(
            "pbkv_pin_moves_total",
            "Workflows moved to another replica",
            ["reason"],
            registry=self.registry,
        )
        self.retries = Counter(
            "pbkv_router_retries_total",
            "Requests sent to a second replica",
            registry=self.registry,
        )
        self.identities = Counter(
            "pbkv_router_identities_total",
            "Requests by the name under which their workflow id was found",
            ["source"],
            registry=self.registry,
        )
        self.prompt_tokens = Counter(
            "pbkv_router_prompt_tokens_total",
            "Prompt tokens of answers, as the engines counted them",
            registry=self.registry,
        )
        self.cached_tokens = Counter(
            "pbkv_router_cached_tokens_total",
            "Of these, tokens that were cached, on any tier",
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "pbkv_router_in_flight", "Requests being answered", registry=self.registry
        )
        self.events_queued = Gauge(
            "pbkv_router_events_queued",
            "Lifecycle events that wait for Redis",
            registry=self.registry,
        )
        self.events_dropped = Counter(
            "pbkv_router_events_dropped_total",
            "Lifecycle events dropped because too many waited for Redis",
            registry=self.registry,
        )
        self.traces = Counter(
            "pbkv_router_traces_total", "Records written to the traces", registry=self.registry
        )
        self.traces_queued = Gauge(
            "pbkv_router_traces_queued", "Records that wait for Redis", registry=self.registry
        )
        self.traces_dropped = Counter(
            "pbkv_router_traces_dropped_total",
            "Records dropped because too many waited for Redis, or Redis refused them",
            registry=self.registry,
        )
        self.redis_available = Gauge(
            "pbkv_router_redis_available", "1 while Redis answers", registry=self.registry
        )
        self.replicas = Gauge(
            "pbkv_router_replicas", "Known replicas", ["state"], registry=self.registry
        )
        self._dropped = 0

    def count_dropped(self, total: int) -> None:
        """Bring the counter of dropped events to ``total``."""
        self.events_dropped.inc(total - self._dropped)
        self._dropped = total

    def show_replicas(self, candidates: Iterable[Candidate]) -> None:
        """Show how many replicas are in each state."""
        tally: Tally[str] = Tally(candidate.replica.state for candidate in candidates)
        for state in _STATES:
            self.replicas.labels(state).set(tally[state])

    def counted(self) -> Tally[str]:
        """What the last minutes are told by: answers of engines by status, broken answers and
        moves by reason, times to the first token below each bound, retries and tokens."""
        counts: Tally[str] = Tally()
        for family in self.registry.collect():
            for sample in family.samples:
                name = _counted_name(sample.name, sample.labels)
                if name is not None:
                    counts[name] += int(sample.value)
        return counts

    def render(self) -> bytes:
        """The text format of Prometheus."""
        return generate_latest(self.registry)


def _counted_name(metric: str, labels: Mapping[str, str]) -> str | None:
    match metric:
        case "pbkv_router_requests_total" if labels["route"] in ENGINE_PATHS:
            return STATUS + labels["status"]
        case "pbkv_router_broken_answers_total":
            return BROKEN + labels["reason"]
        case "pbkv_pin_moves_total":
            return MOVED + labels["reason"]
        case "pbkv_router_ttft_seconds_bucket":
            return TTFT + labels["le"]
        case "pbkv_router_retries_total":
            return RETRIED
        case "pbkv_router_prompt_tokens_total":
            return PROMPT
        case "pbkv_router_cached_tokens_total":
            return CACHED
    return None
