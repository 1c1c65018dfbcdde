"""Settings of one replica, as they arrive from a Serve configuration or a command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pbkv.errors import SettingsError
from pbkv.policy import make_policy
from pbkv.policy.eviction_unit import EvictionUnit
from pbkv.settings import ENV_PREFIX, PBKV_QUEUE, PolicySettings
from services.engine import CacheBackend, Device, EngineOptions, InvalidEngineOptions
from services.engine.options import longest_context
from services.errors import InvalidReplicaSettings
from services.registration import ReplicaIdentity

Positive = Annotated[int, Field(ge=1)]

DEFAULT_POLICY = "pbkv"
"""What a stack runs unless told otherwise, with the queue order of the same name and eviction by
pages: every other policy is there to be compared with stock, which evicts whole nodes."""


class ReplicaSettings(BaseModel):
    """What every replica of a deployment has in common. An unknown field is an error.

    ``model`` is a name that :mod:`services.models` knows or the path of a model folder.
    ``policy_options`` are further fields of :class:`pbkv.settings.PolicySettings`.
    ``schedule_policy`` is the order of waiting requests: one of the engine's own, or ``pbkv``,
    which is the default with the plug-in's cache; stock caches have the engine's default.
    ``host`` is what the engine binds; ``advertised_host`` what routers connect to, ``host`` if
    empty. ``cpu_cores`` binds the replica of local rank i to entry i, round robin.
    ``drain_limit_s`` bounds how long a replica that is to go waits for its workflows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    served_model_name: str = ""
    model_cache_dir: Path | None = None
    redis_url: str = "redis://127.0.0.1:6379/0"
    host: str = "127.0.0.1"
    advertised_host: str = ""
    device: Device = Device.AUTO
    tp: Positive = 1
    cache: CacheBackend = CacheBackend.PBKV
    policy: str = DEFAULT_POLICY
    policy_options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    idle_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    kv_tokens: Positive | None = None
    context_length: Positive | None = None
    page_size: Positive = 16
    host_ratio: Annotated[float, Field(ge=0)] = 0.0
    schedule_policy: str | None = None
    max_running_requests: Positive | None = None
    chunked_prefill_size: Positive | None = None
    load_format: str | None = None
    cpu_cores: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    log_dir: Path | None = None
    ready_timeout_s: Annotated[float, Field(gt=0)] = 900.0
    drain_limit_s: Annotated[float, Field(ge=0)] = 600.0
    num_replicas: Positive = 1
    num_cpus: Annotated[float, Field(ge=0)] = 0.1
    num_gpus: Annotated[float, Field(ge=0)] = 0.0

    @property
    def model_name(self) -> str:
        """The name that clients ask for: that given, else that of the model."""
        return self.served_model_name or Path(self.model).name

    def engine_options(
        self, *, model_path: Path, replica_id: str, port: int, local_rank: int = 0
    ) -> EngineOptions:
        """The engine of one replica. Raises :class:`InvalidReplicaSettings` with one line."""
        cores = self.cpu_cores[local_rank % len(self.cpu_cores)] if self.cpu_cores else None
        log_path = self.log_dir / f"engine-{replica_id}.log" if self.log_dir else None
        plugged_in = self.cache is CacheBackend.PBKV
        queue = self.schedule_policy or (PBKV_QUEUE if plugged_in else None)
        ours = queue == PBKV_QUEUE
        if self.kv_tokens is not None and self.context_length is not None:
            longest = longest_context(self.kv_tokens, self.page_size)
            if self.context_length > longest:
                raise InvalidReplicaSettings(
                    f"context_length is {self.context_length}, and a pool of kv_tokens "
                    f"{self.kv_tokens} holds {longest} at most; longer prompts would wait for ever"
                )
        if ours and not plugged_in:
            raise InvalidReplicaSettings(
                f"schedule_policy {PBKV_QUEUE} belongs to the plug-in, and cache is {self.cache}"
            )
        try:
            policy = policy_settings(
                {
                    "eviction_unit": _eviction_unit(self.policy),
                    **self.policy_options,
                    "policy": self.policy,
                    "queue": PBKV_QUEUE if ours else "",
                    "idle_timeout_s": self.idle_timeout_s,
                    "redis_url": self.redis_url,
                    "replica_id": replica_id,
                }
            )
            return EngineOptions(
                model_path=model_path,
                served_model_name=self.model_name,
                port=port,
                host=self.host,
                device=self.device,
                tp=self.tp,
                kv_tokens=self.kv_tokens,
                context_length=self.context_length,
                page_size=self.page_size,
                host_ratio=self.host_ratio,
                cache=self.cache,
                policy=policy,
                schedule_policy=None if ours else queue,
                max_running_requests=self.max_running_requests,
                chunked_prefill_size=self.chunked_prefill_size,
                cpu_cores=cores,
                load_format=self.load_format,
                log_path=log_path,
                extra_args=self.extra_args,
            )
        except (SettingsError, InvalidEngineOptions) as problem:
            raise InvalidReplicaSettings(str(problem)) from None

    def identity(self, *, replica_id: str, port: int, epoch: int) -> ReplicaIdentity:
        """What a replica that listens on ``port`` says of itself."""
        url = f"http://{self.advertised_host or self.host}:{port}"
        return ReplicaIdentity(replica_id, url, self.model_name, epoch)


def _eviction_unit(policy: str) -> EvictionUnit:
    return EvictionUnit.PAGE if policy == DEFAULT_POLICY else EvictionUnit.NODE


def policy_settings(options: Mapping[str, object]) -> PolicySettings:
    """Settings of a policy that exists. Raises :class:`pbkv.errors.SettingsError`."""
    environ = {ENV_PREFIX + name.upper(): str(value) for name, value in options.items()}
    settings = PolicySettings.from_env(environ)
    make_policy(settings)
    return settings


def replica_settings(values: object) -> ReplicaSettings:
    """Validate ``values``. Raises :class:`InvalidReplicaSettings` with one line."""
    try:
        return ReplicaSettings.model_validate(values)
    except ValidationError as problem:
        raise InvalidReplicaSettings(first_problem(problem)) from None


def first_problem(problem: ValidationError) -> str:
    """The first of pydantic's complaints, on one line."""
    first = problem.errors(include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "settings"
    return f"{field}: {first['msg']}"
