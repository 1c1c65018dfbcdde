"""Settings of the engine plug-in, read once from the environment, strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pbkv.errors import SettingsError
from pbkv.hidden_source import layer_of
from pbkv.redis_url import redis_address

ENV_PREFIX = "PBKV_ENGINE_"
"""Every environment variable with this prefix must be a known setting."""

PBKV_QUEUE = "pbkv"
"""The plug-in's own order of waiting requests."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What the cache policy of one engine does.

    ``lookahead_steps`` is K and ``gamma`` the confidence decay of eq. (2). ``access_model`` is
    ``direct``, ``inherit`` or ``learned``; ``inherits`` is for the second, a JSON object from an
    agent to the list of agents that inherit what it accessed. ``tie_rule`` orders equal scores.
    ``eviction_unit`` is ``node`` for whole nodes of the tree, as stock evicts, or ``page`` for no
    more of the end of a node than is needed, see :mod:`pbkv.policy.eviction_unit`.
    ``agent_graph`` is KVFlow's static graph, a JSON object from an agent to the list of agents that
    may follow it; ``aggressive_rho`` the share of the device pool that ``pbkv-aggressive`` may
    displace.
    ``predictor`` names who forecasts the next agents for a policy that uses forecasts (see
    :mod:`pbkv.predict`), ``predictor_checkpoint`` the file it starts from, or the folder in which
    checkpoints are published, and ``forecast_noise`` is lambda of eq. (5), 0 to use forecasts as
    they are. A checkpoint that changes is taken into use while the engine serves; it is looked at
    every ``predictor_reload_s``, 0 for never. ``shadow_checkpoint`` is that of a second predictor,
    of ``shadow_predictor`` or whatever family it is, whose accuracy is reported and who never acts.
    ``queue`` is the order of waiting requests: empty for the engine's own, ``pbkv`` for
    :mod:`pbkv.policy.queue_order`, where its two weights and ``queue_max_wait_s`` are explained.
    ``queue_knowledge`` lets a policy that uses forecasts count the path of every waiting request
    as a sure next access.
    ``redis_url`` and ``replica_id`` are empty for an engine that stands alone: then lifecycle
    comes from the requests only. ``eviction_log_dir`` makes every rank write its evictions there,
    one JSON line each: for tests and for a closer look, not for production.
    ``trace_hidden_dir`` makes rank 0 write the hidden states of prompts there, by request id, see
    :mod:`pbkv.trace.hidden`: at most ``trace_hidden_max_mb`` per replica, in a new file every
    ``trace_hidden_flush_s``.
    ``hidden_source`` says which hidden states the engine captures, see :mod:`pbkv.hidden_source`;
    empty for those that the checkpoint was trained on, post-norm without one.
    """

    policy: str = "lae"
    idle_timeout_s: float = 600.0
    max_workflows: int = 100_000
    max_retired_workflows: int = 10_000
    lookahead_steps: int = 3
    gamma: float = 0.7
    access_model: str = "direct"
    inherits: str = ""
    agent_graph: str = ""
    aggressive_rho: float = 0.2
    tie_rule: str = "recency"
    eviction_unit: str = "node"
    predictor: str = "markov"
    predictor_checkpoint: str = ""
    predictor_reload_s: float = 2.0
    shadow_predictor: str = ""
    shadow_checkpoint: str = ""
    forecast_noise: float = 0.0
    queue: str = ""
    queue_cached_weight: float = 4.0
    queue_remaining_weight: float = 0.5
    queue_max_wait_s: float = 120.0
    queue_knowledge: bool = True
    redis_url: str = ""
    replica_id: str = ""
    eviction_log_dir: str = ""
    trace_hidden_dir: str = ""
    trace_hidden_max_mb: int = 1_024
    trace_hidden_flush_s: float = 60.0
    hidden_source: str = ""

    def __post_init__(self) -> None:
        if self.idle_timeout_s <= 0:
            raise SettingsError(f"idle_timeout_s is {self.idle_timeout_s}; it must be above 0")
        for name in ("max_workflows", "max_retired_workflows"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.lookahead_steps < 1:
            raise SettingsError(f"lookahead_steps is {self.lookahead_steps}; it must be at least 1")
        if not 0.0 < self.gamma <= 1.0:
            raise SettingsError(f"gamma is {self.gamma}; it must be above 0 and at most 1")
        if not 0.0 <= self.aggressive_rho <= 1.0:
            raise SettingsError(f"aggressive_rho is {self.aggressive_rho}; it must be 0 to 1")
        if not 0.0 <= self.forecast_noise <= 1.0:
            raise SettingsError(f"forecast_noise is {self.forecast_noise}; it must be 0 to 1")
        for name in ("predictor_checkpoint", "shadow_checkpoint"):
            if getattr(self, name) and self.predictor == "none":
                raise SettingsError(f"{name} is set, but predictor is none")
        if self.shadow_predictor and not self.shadow_checkpoint:
            raise SettingsError("shadow_predictor is set, but shadow_checkpoint is not")
        self._check_files()
        self._check_queue()
        if self.hidden_source:
            layer_of(self.hidden_source)
        self.heirs()
        self.graph()
        if bool(self.redis_url) != bool(self.replica_id):
            raise SettingsError("redis_url and replica_id are set together or not at all")
        if self.redis_url:
            redis_address(self.redis_url)

    def _check_files(self) -> None:
        if not 0.0 <= self.predictor_reload_s < math.inf:
            raise SettingsError(
                f"predictor_reload_s is {self.predictor_reload_s}; it must be 0 or above"
            )
        if self.trace_hidden_max_mb < 1:
            raise SettingsError(
                f"trace_hidden_max_mb is {self.trace_hidden_max_mb}; it must be at least 1"
            )
        if not 0.0 < self.trace_hidden_flush_s < math.inf:
            raise SettingsError(
                f"trace_hidden_flush_s is {self.trace_hidden_flush_s}; it must be above 0"
            )

    def _check_queue(self) -> None:
        if self.queue not in ("", PBKV_QUEUE):
            raise SettingsError(
                f"unknown queue {self.queue!r}; choose {PBKV_QUEUE}, or leave it empty for the "
                f"engine's own"
            )
        for name in ("queue_cached_weight", "queue_remaining_weight"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be 0 or above")
        if not self.queue_max_wait_s > 0.0:
            raise SettingsError(f"queue_max_wait_s is {self.queue_max_wait_s}; it must be above 0")

    def heirs(self) -> dict[str, list[str]]:
        """``inherits``, read. Raises :class:`SettingsError`."""
        return _agents_by_agent("inherits", self.inherits)

    def graph(self) -> dict[str, list[str]]:
        """``agent_graph``, read. Raises :class:`SettingsError`."""
        return _agents_by_agent("agent_graph", self.agent_graph)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> PolicySettings:
        """Read ``PBKV_ENGINE_*``. Raises :class:`SettingsError` naming the variable at fault."""
        parsers: dict[str, Callable[[str], Any]] = {
            field.name: _PARSERS.get(type(field.default), type(field.default))
            for field in fields(cls)
        }
        known = {ENV_PREFIX + name.upper(): name for name in parsers}
        values: dict[str, Any] = {}
        for variable in sorted(v for v in environ if v.startswith(ENV_PREFIX)):
            name = known.get(variable)
            if name is None:
                raise SettingsError(
                    f"unknown setting {variable}; known: {', '.join(sorted(known))}"
                )
            try:
                values[name] = parsers[name](environ[variable])
            except ValueError:
                kind = type(getattr(cls(), name)).__name__
                raise SettingsError(
                    f"{variable} must be a {kind}, got {environ[variable]!r}"
                ) from None
        return cls(**values)

    def to_env(self) -> dict[str, str]:
        """The environment that :meth:`from_env` reads back; defaults are left out."""
        return {
            ENV_PREFIX + field.name.upper(): str(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


def _flag(text: str) -> bool:
    """``bool`` would take every text but the empty one for true."""
    try:
        return _FLAGS[text.lower()]
    except KeyError:
        raise ValueError(text) from None


_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_PARSERS: Mapping[type, Callable[[str], Any]] = {bool: _flag}


def _agents_by_agent(setting: str, text: str) -> dict[str, list[str]]:
    try:
        agents = json.loads(text or "{}")
    except ValueError:
        agents = None
    if not isinstance(agents, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in agents.values()
    ):
        raise SettingsError(
            f'{setting} must be a JSON object such as {{"Coder": ["Tester", "Reviewer"]}}'
        )
    return agents
