"""What ``pbkv up`` is asked for, and the defaults that fit a machine without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.settings import DEFAULT_POLICY

CPU_KV_TOKENS = 16_384
"""Device tier of one replica: four contexts of a small model, some 400 MB for SmolLM2."""
CPU_CONTEXT_TOKENS = 8_192
CPU_HOST_RATIO = 2.0


@dataclass(frozen=True, slots=True)
class StackSettings:
    """One local stack. Its routers listen on ``port``, ``port`` + 1, ...

    ``redis_url`` None means a Redis of the stack's own. ``kv_tokens``, ``context_length`` and
    ``host_ratio`` None mean a default for the machine and the model.
    """

    port: int = 8000
    host: str = "127.0.0.1"
    replicas: int = 2
    routers: int = 1
    model: str = "smollm2"
    model_cache_dir: Path | None = None
    policy: str = DEFAULT_POLICY
    redis_url: str | None = None
    device: str = "auto"
    kv_tokens: int | None = None
    context_length: int | None = None
    host_ratio: float | None = None
    policy_options: dict[str, str] = field(default_factory=dict)
    schedule_policy: str | None = None
    idle_timeout_s: float = 600.0
    engine_args: tuple[str, ...] = ()
    state_dir: Path | None = None

    @property
    def router_ports(self) -> tuple[int, ...]:
        return tuple(range(self.port, self.port + self.routers))


def default_state_dir(port: int, environ: Mapping[str, str]) -> Path:
    """Where a stack keeps its logs: one folder per port, following the XDG convention."""
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "/tmp")) / ".local/state")
    return Path(base) / "pbkv" / f"up-{port}"
