"""Everything about a stack that can be refused before a process is started."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import redis

from pbkv.errors import InvalidRedisUrl, SettingsError
from pbkv.sglang.redis_client import redis_client
from services.engine import Device
from services.engine.options import MAX_PORT, longest_context, resolve_device
from services.errors import InvalidReplicaSettings
from services.models import resolve_model
from services.models.errors import ModelError
from services.ports import is_free
from services.settings import ReplicaSettings, policy_settings, replica_settings
from services.stack.errors import StackRefused
from services.stack.memory import available_bytes, model_config, needed_bytes
from services.stack.settings import (
    CPU_CONTEXT_TOKENS,
    CPU_HOST_RATIO,
    CPU_KV_TOKENS,
    StackSettings,
)

_REDIS_TIMEOUT_S = 3.0
PAGE_SIZE = 16
"""Of the engines of a local stack, in tokens."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Plan:
    """A stack that may start: the settings with every default filled in."""

    settings: StackSettings
    model_path: Path
    device: Device
    kv_tokens: int | None
    context_length: int | None
    host_ratio: float

    def replica(self, redis_url: str, log_dir: Path) -> ReplicaSettings:
        """Settings of the replicas. Raises :class:`StackRefused` with one line."""
        asked = self.settings
        on_cpu = self.device is Device.CPU
        try:
            replica = replica_settings(
                {
                    "model": str(self.model_path),
                    "served_model_name": Path(asked.model).name,
                    "redis_url": redis_url,
                    "device": self.device,
                    "policy": asked.policy,
                    "policy_options": asked.policy_options,
                    "idle_timeout_s": asked.idle_timeout_s,
                    "kv_tokens": self.kv_tokens,
                    "context_length": self.context_length,
                    "host_ratio": self.host_ratio,
                    "schedule_policy": asked.schedule_policy,
                    "cpu_cores": _cores() if on_cpu else (),
                    "extra_args": asked.engine_args,
                    "log_dir": log_dir,
                    # A stack ends at once: nothing outlives it that workflows could move to.
                    "drain_limit_s": 0.0,
                    "num_replicas": asked.replicas,
                    "num_gpus": 0 if on_cpu else 1,
                }
            )
            replica.engine_options(model_path=self.model_path, replica_id="check", port=MAX_PORT)
        except InvalidReplicaSettings as problem:
            raise StackRefused(str(problem)) from None
        return replica


def make_plan(settings: StackSettings, say: Callable[[str], None]) -> Plan:
    """Check ``settings`` against this machine; builds the model if need be.

    Raises :class:`StackRefused` with one line that says what to change.
    """
    _check_numbers(settings)
    _check_ports(settings)
    try:
        policy_settings({**settings.policy_options, "policy": settings.policy})
    except SettingsError as problem:
        raise StackRefused(str(problem)) from None
    if settings.redis_url is not None:
        check_redis(settings.redis_url)
    try:
        device = resolve_device(Device(settings.device))
    except ValueError:
        raise StackRefused(
            f"unknown device {settings.device!r}; choose one of: {', '.join(Device)}"
        ) from None
    say(f"model: {settings.model}")
    try:
        model_path = resolve_model(settings.model, cache_dir=settings.model_cache_dir)
        plan = _fill_in(settings, model_path, device)
    except ModelError as problem:
        raise StackRefused(str(problem)) from None
    if device is Device.CPU:
        _check_memory(plan)
    return plan


def check_redis(url: str) -> None:
    """Raises :class:`StackRefused` unless a Redis answers at ``url``."""
    try:
        client = redis_client(
            url, socket_connect_timeout=_REDIS_TIMEOUT_S, socket_timeout=_REDIS_TIMEOUT_S
        )
    except InvalidRedisUrl as problem:
        raise StackRefused(str(problem)) from None
    try:
        client.ping()
    except (redis.RedisError, OSError) as problem:
        raise StackRefused(
            f"redis at {_without_password(url)} does not answer: {problem}"
        ) from None
    finally:
        client.close()


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _check_numbers(settings: StackSettings) -> None:
    for name in ("replicas", "routers"):
        if getattr(settings, name) < 1:
            raise StackRefused(f"{name} is {getattr(settings, name)}; it must be at least 1")
    last = settings.router_ports[-1]
    if settings.port < 1 or last > MAX_PORT:
        raise StackRefused(f"ports {settings.port} to {last} are not within 1 to {MAX_PORT}")


def _check_ports(settings: StackSettings) -> None:
    for port in settings.router_ports:
        if not is_free(port, settings.host):
            raise StackRefused(f"port {port} is in use; choose another with --port")


def _fill_in(settings: StackSettings, model_path: Path, device: Device) -> Plan:
    if device is not Device.CPU:
        return Plan(
            settings,
            model_path,
            device,
            settings.kv_tokens,
            settings.context_length,
            CPU_HOST_RATIO if settings.host_ratio is None else settings.host_ratio,
        )
    longest = int(model_config(model_path).get("max_position_embeddings", CPU_CONTEXT_TOKENS))
    kv_tokens = settings.kv_tokens or CPU_KV_TOKENS
    context_length = settings.context_length or min(
        CPU_CONTEXT_TOKENS, longest, longest_context(kv_tokens, PAGE_SIZE)
    )
    if context_length < 1:
        raise StackRefused(
            f"kv tokens {kv_tokens} hold no request: a few pages of {PAGE_SIZE} at least"
        )
    if context_length > longest:
        raise StackRefused(
            f"context length {context_length} is beyond the {longest} tokens of the model"
        )
    return Plan(
        settings,
        model_path,
        device,
        settings.kv_tokens or max(CPU_KV_TOKENS, context_length + 3 * PAGE_SIZE),
        context_length,
        CPU_HOST_RATIO if settings.host_ratio is None else settings.host_ratio,
    )


def _check_memory(plan: Plan) -> None:
    needed = needed_bytes(
        plan.model_path,
        replicas=plan.settings.replicas,
        kv_tokens=plan.kv_tokens or CPU_KV_TOKENS,
        host_ratio=plan.host_ratio,
    )
    available = available_bytes()
    if needed > available:
        raise StackRefused(
            f"not enough memory: {plan.settings.replicas} replicas need about "
            f"{needed / _GIB:.1f} GiB, {available / _GIB:.1f} GiB are available; "
            "lower --replicas or --kv-tokens"
        )


def _cores() -> tuple[str, ...]:
    """One core for each replica in turn, of those that this process may use."""
    return tuple(str(core) for core in sorted(os.sched_getaffinity(0)))
