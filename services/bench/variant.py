"""The engine variants that the benchmark compares, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pbkv.errors import SettingsError
from pbkv.policy import POLICIES, make_policy
from pbkv.settings import PBKV_QUEUE, PolicySettings
from services.bench.drive import Anonymous, Invocations, Lifecycle, Sessions
from services.engine import CacheBackend

STOCK_LRU = "stock-lru"
SESSION = "session"
STOCK_QUEUES = ("fcfs", "lpm", "hrrn", "shortest-prefill-first")
QUEUES = (*STOCK_QUEUES, PBKV_QUEUE)


@dataclass(frozen=True, slots=True)
class Variant:
    """One engine to measure: who evicts, in which order requests wait, and what it is told."""

    policy: str
    queue: str
    cache: CacheBackend
    lifecycle: Lifecycle

    @property
    def name(self) -> str:
        return f"{self.policy}/{self.queue}"

    @property
    def schedule_policy(self) -> str:
        """The engine's own order, which the plug-in's takes the place of."""
        return "fcfs" if self.queue == PBKV_QUEUE else self.queue

    def policy_settings(self, shared: PolicySettings) -> PolicySettings:
        """Settings of the plug-in: ``shared``, with this variant's policy and queue.

        Without meaning for a stock engine.
        """
        if self.cache is not CacheBackend.PBKV:
            return shared
        queue = PBKV_QUEUE if self.queue == PBKV_QUEUE else ""
        return replace(shared, policy=self.policy, queue=queue)


def variant_names() -> list[str]:
    """Every name that :func:`make_variants` takes as a policy."""
    return [*POLICIES, STOCK_LRU, SESSION]


def make_variants(policies: list[str], queues: list[str]) -> list[Variant]:
    """All combinations; a policy given as ``policy/queue`` is measured under that queue alone.

    Raises :class:`SettingsError` listing the choices for a wrong name, and for a stock engine
    under the plug-in's queue.
    """
    plain = [policy for policy in policies if "/" not in policy]
    pairs = [(policy, queue) for queue in queues for policy in plain]
    for policy in policies:
        name, slash, queue = policy.partition("/")
        if slash:
            pairs.append((name, queue))
    return [_variant(policy, queue) for policy, queue in pairs]


def _variant(policy: str, queue: str) -> Variant:
    for kind, name, known in (("policy", policy, variant_names()), ("queue", queue, list(QUEUES))):
        if name not in known:
            raise SettingsError(f"unknown {kind} {name!r}; choose from: {', '.join(known)}")
    if queue == PBKV_QUEUE and policy in (STOCK_LRU, SESSION):
        raise SettingsError(
            f"policy {policy} runs the stock engine, and queue pbkv belongs to the plug-in; "
            f"choose from: {', '.join(STOCK_QUEUES)}"
        )
    if policy == STOCK_LRU:
        return Variant(policy, queue, CacheBackend.STOCK, Anonymous())
    if policy == SESSION:
        return Variant(policy, queue, CacheBackend.SESSION, Sessions())
    return Variant(policy, queue, CacheBackend.PBKV, Invocations())


def check_settings(variants: list[Variant], shared: PolicySettings) -> None:
    """Raise :class:`SettingsError` now for what would stop an engine's start later."""
    for variant in variants:
        if variant.cache is CacheBackend.PBKV:
            make_policy(variant.policy_settings(shared))
