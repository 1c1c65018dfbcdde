"""What a simulation compares, by the same names as the benchmark on the real engine.

``POLICY[+SETTING...][/QUEUE]``: ``lae``, ``session/lpm``, ``he+learned+newest/pbkv``,
``pbkv+gamma=0.9``. A setting is an access model, a tie rule, an eviction unit, or ``name=value``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pbkv.errors import SettingsError
from pbkv.policy.access_model import ACCESS_MODELS
from pbkv.policy.eviction_unit import EvictionUnit
from pbkv.policy.he import TieRule
from pbkv.settings import ENV_PREFIX, PBKV_QUEUE, PolicySettings
from pbkv.sim.session import SessionPolicy
from pbkv.sim.simulate import policy_names
from pbkv.sim.waiting import QUEUES

_WORDS: Mapping[str, str] = {
    **dict.fromkeys(ACCESS_MODELS, "access_model"),
    **dict.fromkeys(TieRule, "tie_rule"),
    **dict.fromkeys(EvictionUnit, "eviction_unit"),
}


@dataclass(frozen=True, slots=True)
class SimVariant:
    """A policy with settings of its own, as written, under a queue order."""

    policy: str
    queue: str
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "+".join((self.policy, *self.words)) + f"/{self.queue}"

    def settings(self, shared: PolicySettings) -> PolicySettings:
        """``shared`` with this variant's own. Raises :class:`SettingsError`."""
        changes = {}
        for word in self.words:
            name, equals, value = word.partition("=")
            if not equals:
                name, value = _WORDS.get(word, ""), word
                if not name:
                    raise SettingsError(
                        f"unknown setting {word!r}; choose from: {', '.join(_WORDS)}, or name=value"
                    )
            changes[ENV_PREFIX + name.upper()] = value
        return PolicySettings.from_env(shared.to_env() | changes)


def make_variants(policies: Sequence[str], queues: Sequence[str]) -> list[SimVariant]:
    """All combinations; a policy written with a queue is simulated under that one alone.

    Raises :class:`SettingsError` listing the choices for an unknown name.
    """
    variants = {}
    for policy in policies:
        name, slash, own = policy.strip().partition("/")
        for queue in (own,) if slash else queues:
            variant = _variant(name, queue.strip())
            variants[variant.name] = variant
    return list(variants.values())


def _variant(policy_and_settings: str, queue: str) -> SimVariant:
    policy, *words = policy_and_settings.split("+")
    for kind, name, known in (("policy", policy, policy_names()), ("queue", queue, QUEUES)):
        if name not in known:
            raise SettingsError(f"unknown {kind} {name!r}; choose from: {', '.join(known)}")
    if policy == SessionPolicy.name and queue == PBKV_QUEUE:
        raise SettingsError(
            f"policy {policy} is the stock engine's, and queue {PBKV_QUEUE} belongs to the plug-in"
        )
    if policy == SessionPolicy.name and words:
        raise SettingsError(
            f"policy {policy} is the stock engine's and has no setting {words[0]!r} of the plug-in"
        )
    return SimVariant(policy, queue, tuple(words))
