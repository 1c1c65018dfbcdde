"""The engine variants that the benchmark compares, by name.

A variant is written ``POLICY[+SETTING...][/QUEUE]``: ``lae``, ``session/lpm``,
``he+learned+newest/pbkv``, ``he+oracle+gamma=0.9``. A setting is the name of an access model, of a
tie rule, of a predictor or of an eviction unit, which are all different, or ``name=value`` for any
other setting of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pbkv.errors import SettingsError
from pbkv.policy import POLICIES, make_policy
from pbkv.policy.access_model import ACCESS_MODELS
from pbkv.policy.eviction_unit import EvictionUnit
from pbkv.policy.he import TieRule
from pbkv.settings import ENV_PREFIX, PBKV_QUEUE, PolicySettings
from services.bench.drive import Anonymous, Invocations, Lifecycle, Sessions
from services.bench.predictors import PREDICTOR_NAMES
from services.engine import CacheBackend

STOCK_LRU = "stock-lru"
SESSION = "session"
STOCK_QUEUES = ("fcfs", "lpm", "hrrn", "shortest-prefill-first")
QUEUES = (*STOCK_QUEUES, PBKV_QUEUE)

_WORDS: Mapping[str, str] = {
    **dict.fromkeys(ACCESS_MODELS, "access_model"),
    **dict.fromkeys(TieRule, "tie_rule"),
    **dict.fromkeys(PREDICTOR_NAMES, "predictor"),
    **dict.fromkeys(EvictionUnit, "eviction_unit"),
}
"""What may stand alone after a plus, and the setting that it is a value of."""

_OF_FORECASTS = ("access_model", "tie_rule", "predictor", "forecast_noise", "gamma")
_NOT_OF_A_VARIANT = (
    "policy",
    "queue",
    "predictor_checkpoint",
    "redis_url",
    "replica_id",
    "eviction_log_dir",
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One engine to measure: who evicts, in which order requests wait, and what it is told.

    ``changes`` are the settings that this variant has of its own, as written.
    """

    policy: str
    queue: str
    cache: CacheBackend
    lifecycle: Lifecycle
    changes: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        settings = "".join(
            f"+{value if _WORDS.get(value) == name else f'{name}={value}'}"
            for name, value in self.changes
        )
        return f"{self.policy}{settings}/{self.queue}"

    @property
    def is_stock(self) -> bool:
        """Whether the engine runs without the plug-in."""
        return self.cache is not CacheBackend.PBKV

    @property
    def uses_forecasts(self) -> bool:
        return not self.is_stock and POLICIES[self.policy].uses_forecasts

    @property
    def schedule_policy(self) -> str:
        """The engine's own order, which the plug-in's takes the place of."""
        return "fcfs" if self.queue == PBKV_QUEUE else self.queue

    def policy_settings(self, shared: PolicySettings) -> PolicySettings:
        """Settings of the plug-in: ``shared``, with this variant's policy, queue and changes.

        Without meaning for a stock engine. Raises :class:`SettingsError`.
        """
        if self.is_stock:
            return shared
        changes = {ENV_PREFIX + name.upper(): value for name, value in self.changes}
        settings = PolicySettings.from_env(shared.to_env() | changes)
        queue = PBKV_QUEUE if self.queue == PBKV_QUEUE else ""
        return replace(settings, policy=self.policy, queue=queue)

    def describe(self, shared: PolicySettings) -> dict[str, Any]:
        """The keys of a row that say what was measured; a setting without meaning is None."""
        settings = self.policy_settings(shared)
        return {
            "variant": self.name,
            "policy": self.policy,
            "queue": self.queue,
            **{
                name: getattr(settings, name) if self.uses_forecasts else None
                for name in ("access_model", "tie_rule", "predictor")
            },
            "settings": dict(self.changes),
        }


def variant_names() -> list[str]:
    """Every name that :func:`make_variants` takes as a policy."""
    return [*POLICIES, STOCK_LRU, SESSION]


def make_variants(policies: list[str], queues: list[str]) -> list[Variant]:
    """All combinations; one given with a queue, as ``policy/queue``, is measured under that alone.

    Raises :class:`SettingsError` listing the choices for a wrong name, for a setting that means
    nothing to the policy or the queue, and for a variant that is there twice.
    """
    plain = [policy for policy in policies if "/" not in policy]
    pairs = [(policy, queue) for queue in queues for policy in plain]
    for policy in policies:
        name, slash, queue = policy.partition("/")
        if slash:
            pairs.append((name, queue))
    variants: dict[str, Variant] = {}
    for policy, queue in pairs:
        variant = _variant(policy, queue)
        if variant.name in variants:
            raise SettingsError(f"variant {variant.name} is there twice")
        variants[variant.name] = variant
    return list(variants.values())


def _variant(policy_and_settings: str, queue: str) -> Variant:
    policy, *words = policy_and_settings.strip().split("+")
    queue = queue.strip()
    for kind, name, known in (("policy", policy, variant_names()), ("queue", queue, list(QUEUES))):
        if name not in known:
            raise SettingsError(f"unknown {kind} {name!r}; choose from: {', '.join(known)}")
    changes = _changes(words)
    if policy in (STOCK_LRU, SESSION):
        if queue == PBKV_QUEUE:
            raise SettingsError(
                f"policy {policy} runs the stock engine, and queue pbkv belongs to the plug-in; "
                f"choose from: {', '.join(STOCK_QUEUES)}"
            )
        if changes:
            raise SettingsError(
                f"policy {policy} runs the stock engine, which has no setting {changes[0][0]}"
            )
    if policy == STOCK_LRU:
        return Variant(policy, queue, CacheBackend.STOCK, Anonymous())
    if policy == SESSION:
        return Variant(policy, queue, CacheBackend.SESSION, Sessions())
    variant = Variant(policy, queue, CacheBackend.PBKV, Invocations(), changes)
    for name, _ in changes:
        if name in _OF_FORECASTS and not variant.uses_forecasts:
            raise SettingsError(f"policy {policy} uses no forecasts: {name} means nothing to it")
        if name.startswith("queue_") and name.endswith("_s") and queue != PBKV_QUEUE:
            raise SettingsError(f"{name} is a setting of queue {PBKV_QUEUE}, not of {queue}")
    return variant


def _changes(words: list[str]) -> tuple[tuple[str, str], ...]:
    changes: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            name, value = _WORDS.get(word, ""), word
            if not name:
                raise SettingsError(
                    f"unknown setting {word!r}; choose from: {', '.join(_WORDS)}, or name=value"
                )
        if name in _NOT_OF_A_VARIANT:
            raise SettingsError(f"{name} cannot be set of one variant")
        if name in changes:
            raise SettingsError(f"setting {name} is given twice: {changes[name]} and {value}")
        changes[name] = value
    return tuple(changes.items())


def check_settings(variants: list[Variant], shared: PolicySettings) -> None:
    """Raise :class:`SettingsError` now for what would stop an engine's start later."""
    for variant in variants:
        if variant.is_stock:
            continue
        settings = variant.policy_settings(shared)
        make_policy(settings)
        if settings.predictor not in PREDICTOR_NAMES and ":" not in settings.predictor:
            raise SettingsError(
                f"unknown predictor {settings.predictor!r}; "
                f"choose from: {', '.join(PREDICTOR_NAMES)}, or module:function"
            )
