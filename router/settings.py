"""Settings of the router, read once from the environment, strictly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pbkv.redis_url import redis_address
from router.errors import SettingsError

ENV_PREFIX = "PBKV_ROUTER_"
"""Every environment variable with this prefix must be a known setting."""

Tenant = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
"""A tenant is part of Redis keys: plain letters, so that ``tenant:id`` reads only one way."""

PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveCount = Annotated[int, Field(gt=0)]


class RouterSettings(BaseModel):
    """How one router process serves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    redis_url: str = "redis://127.0.0.1:6379/0"
    redis_timeout_s: PositiveSeconds = 1.0
    redis_connections: PositiveCount = 64

    idle_timeout_s: PositiveSeconds = 600.0
    """Silence after which a workflow is forgotten; the engines use the same."""
    refresh_s: PositiveSeconds = 0.5
    """Time between two looks at the replicas' entries."""
    heartbeat_ttl_s: PositiveSeconds = 3.0
    """Life of a replica's entry; after Redis lost its data, replicas are believed this long."""
    mark_down_s: PositiveSeconds = 2.0
    """How long a replica that refused a connection is left out."""

    connect_timeout_s: PositiveSeconds = 2.0
    first_byte_timeout_s: PositiveSeconds = 300.0
    """Of streamed answers; one that is not streamed has its first byte at its end."""
    total_timeout_s: PositiveSeconds = 3600.0
    keep_alive_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 15.0
    """Time between two comment lines on a stream whose first token is waited for; 0 for none.

    With the first one the status is sent: an error after it is an event of the stream.
    """

    max_in_flight: PositiveCount = 1024
    max_body_bytes: PositiveCount = 32 * 1024 * 1024
    max_header_bytes: PositiveCount = 64 * 1024
    max_local_pins: PositiveCount = 100_000
    max_queued_events: PositiveCount = 10_000
    max_stream_events: PositiveCount = 10_000
    traces: bool = True
    """Whether finished calls are written to the stream of traces."""
    trace_prompts: bool = False
    """Whether those records hold the prompt, as text."""
    max_stream_traces: PositiveCount = 100_000
    max_queued_traces: PositiveCount = 10_000
    """Records that wait while Redis is away."""
    retry_after_s: PositiveCount = 1
    shutdown_s: PositiveCount = 30
    """How long requests in flight may go on after SIGTERM."""

    api_keys: dict[str, Tenant] = Field(default_factory=dict, repr=False)
    """API key -> tenant. Without keys everyone is the tenant ``default``."""
    api_keys_file: Path | None = None
    """A JSON file of the same form, read at the start."""

    @field_validator("redis_url")
    @classmethod
    def _redis_address(cls, url: str) -> str:
        redis_address(url)
        return url

    @field_validator("api_keys", mode="before")
    @classmethod
    def _from_json(cls, value: Any) -> Any:
        return _read_keys(value.encode()) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _read_key_file(self) -> Self:
        if self.api_keys_file is None:
            return self
        if self.api_keys:
            raise ValueError("api_keys and api_keys_file exclude each other")
        try:
            content = self.api_keys_file.read_bytes()
        except OSError as problem:
            raise ValueError(f"api_keys_file cannot be read: {problem.strerror}") from None
        keys = RouterSettings.model_validate({"api_keys": _read_keys(content)}).api_keys
        if not keys:
            # An empty file must not open the door to everyone.
            raise ValueError("api_keys_file holds no keys")
        self.api_keys.update(keys)
        return self

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> RouterSettings:
        """Read ``PBKV_ROUTER_*``. Raises :class:`SettingsError` naming the variable at fault."""
        known = {ENV_PREFIX + name.upper(): name for name in cls.model_fields}
        values: dict[str, str] = {}
        for variable in sorted(v for v in environ if v.startswith(ENV_PREFIX)):
            if variable not in known:
                raise SettingsError(
                    f"unknown setting {variable}; known: {', '.join(sorted(known))}"
                )
            values[known[variable]] = environ[variable]
        return cls.of(values)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> RouterSettings:
        """Check ``values``. Raises :class:`SettingsError` with one line that shows no API key."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as problem:
            first = problem.errors(include_input=False, include_url=False)[0]
            where = str(first["loc"][0]) if first["loc"] else ""
            name = f"{ENV_PREFIX}{where.upper()}: " if where else ""
            raise SettingsError(f"{name}{first['msg'].removeprefix('Value error, ')}") from None


def _read_keys(content: bytes) -> Any:
    try:
        return orjson.loads(content or b"{}")
    except orjson.JSONDecodeError:
        raise ValueError('must be a JSON object {"key": "tenant", ...}') from None
