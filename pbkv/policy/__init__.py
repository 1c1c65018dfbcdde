"""Eviction policies, selectable by name."""

from __future__ import annotations

from pbkv.errors import UnknownPolicy
from pbkv.policy.base import (
    EvictionPolicy,
    EvictionReason,
    PrefetchBudget,
    Prefetcher,
)
from pbkv.policy.he import HePolicy
from pbkv.policy.kvflow import KvflowPolicy
from pbkv.policy.lae import LaePolicy
from pbkv.policy.lru import LruPolicy
from pbkv.policy.node import CacheNode, Tier
from pbkv.policy.pbkv import PbkvAggressivePolicy, PbkvPolicy
from pbkv.settings import PolicySettings

POLICIES: dict[str, type[EvictionPolicy]] = {
    policy.name: policy
    for policy in (
        LruPolicy,
        KvflowPolicy,
        LaePolicy,
        HePolicy,
        PbkvPolicy,
        PbkvAggressivePolicy,
    )
}


def make_policy(settings: PolicySettings) -> EvictionPolicy:
    """The policy that ``settings`` names. Raises :class:`UnknownPolicy` listing the choices."""
    policy = POLICIES.get(settings.policy)
    if policy is None:
        raise UnknownPolicy(
            f"unknown policy {settings.policy!r}; choose one of: {', '.join(POLICIES)}"
        )
    return policy(settings)


__all__ = [
    "POLICIES",
    "CacheNode",
    "EvictionPolicy",
    "EvictionReason",
    "PolicySettings",
    "PrefetchBudget",
    "Prefetcher",
    "Tier",
    "make_policy",
]
