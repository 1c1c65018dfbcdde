"""Whether the replicas fit into the memory of this machine or container."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ENGINE_BYTES = 1_700 << 20
"""Resident memory of one engine's processes on a CPU, without weights and KV cache (measured)."""
STACK_BYTES = 1_000 << 20
"""Ray, Redis and a router."""
_CACHE_VALUE_BYTES = 2
_CGROUP = Path("/sys/fs/cgroup")


def model_config(model_path: Path) -> Mapping[str, Any]:
    """The ``config.json`` of a model; of a multi-modal one the part that is the text model."""
    config: Mapping[str, Any] = json.loads((model_path / "config.json").read_text())
    nested: Mapping[str, Any] | None = config.get("text_config")
    return nested or config


def kv_bytes_per_token(config: Mapping[str, Any]) -> int:
    """Size of one token's keys and values, for a model with full attention."""
    heads = int(config["num_attention_heads"])
    head_dim = int(config.get("head_dim") or int(config["hidden_size"]) // heads)
    kv_heads = int(config.get("num_key_value_heads") or heads)
    return 2 * int(config["num_hidden_layers"]) * kv_heads * head_dim * _CACHE_VALUE_BYTES


def needed_bytes(model_path: Path, *, replicas: int, kv_tokens: int, host_ratio: float) -> int:
    """Memory that ``replicas`` CPU engines and the rest of the stack come to."""
    weights = sum(file.stat().st_size for file in model_path.glob("*.safetensors"))
    cache = kv_bytes_per_token(model_config(model_path)) * kv_tokens * (1 + host_ratio)
    return STACK_BYTES + replicas * (ENGINE_BYTES + weights + int(cache))


def available_bytes(cgroup: Path = _CGROUP) -> int:
    """Memory that this process may still take: the machine's or the container's, if less."""
    available = _machine_bytes()
    left = _cgroup_bytes(cgroup)
    return available if left is None else min(available, left)


def _machine_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    for line in meminfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    raise RuntimeError(f"{meminfo} has no MemAvailable")


def _cgroup_bytes(cgroup: Path) -> int | None:
    """What the control group (v2) of a container leaves, None without a limit."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        if limit == "max":
            return None
        used = int((cgroup / "memory.current").read_text())
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    # File cache counts as used but is given up on demand.
    return max(0, int(limit) - used + int(stat.get("inactive_file", 0)))
