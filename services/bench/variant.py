"""The engine variants that the benchmark compares, by name."""

from __future__ import annotations

from dataclasses import dataclass

from pbkv.errors import SettingsError
from pbkv.policy import POLICIES
from pbkv.settings import PolicySettings
from services.bench.drive import Anonymous, Invocations, Lifecycle, Sessions
from services.engine import CacheBackend

STOCK_LRU = "stock-lru"
SESSION = "session"
QUEUES = ("fcfs", "lpm", "hrrn", "shortest-prefill-first")


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

    def policy_settings(self) -> PolicySettings:
        """Settings of the plug-in; without meaning for a stock engine."""
        if self.cache is CacheBackend.PBKV:
            return PolicySettings(policy=self.policy)
        return PolicySettings()


def variant_names() -> list[str]:
    """Every name that :func:`make_variants` takes as a policy."""
    return [*POLICIES, STOCK_LRU, SESSION]


def make_variants(policies: list[str], queues: list[str]) -> list[Variant]:
    """All combinations. Raises :class:`SettingsError` listing the choices for a wrong name."""
    for kind, given, known in (("policy", policies, variant_names()), ("queue", queues, QUEUES)):
        for name in given:
            if name not in known:
                raise SettingsError(f"unknown {kind} {name!r}; choose from: {', '.join(known)}")
    return [_variant(policy, queue) for queue in queues for policy in policies]


def _variant(policy: str, queue: str) -> Variant:
    if policy == STOCK_LRU:
        return Variant(policy, queue, CacheBackend.STOCK, Anonymous())
    if policy == SESSION:
        return Variant(policy, queue, CacheBackend.SESSION, Sessions())
    return Variant(policy, queue, CacheBackend.PBKV, Invocations())
