"""What a step costs on a GPU: constants from one data file, each with its source.

A prefill step takes ``overhead + tokens / rate``, or as long as the cache that it loads from the
host if that is longer; a decode step takes ``base + sequences * s + KV tokens read * kv``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pbkv.errors import SettingsError

_FILE = Path(__file__).with_name("costs.toml")


@dataclass(frozen=True, slots=True)
class GpuCosts:
    """Costs of one model on one kind of GPU, of all its tensor-parallel ranks together.

    ``kv_tokens`` is the device pool that the memory allows. ``source`` says where the numbers are
    from: fitted ones name what they were fitted to, others are a roofline.
    """

    model: str
    gpu: str
    ranks: int
    prefill_tokens_per_s: float
    prefill_overhead_s: float
    decode_base_s: float
    decode_s_per_sequence: float
    decode_s_per_kv_token: float
    load_tokens_per_s: float
    kv_tokens: int
    source: str

    def prefill_s(self, new_tokens: int, loaded_tokens: int) -> float:
        """Seconds of a prefill step; loads from the host overlap with it, layer by layer."""
        computed_s = self.prefill_overhead_s + new_tokens / self.prefill_tokens_per_s
        return max(computed_s, loaded_tokens / self.load_tokens_per_s)

    def decode_s(self, sequences: int, kv_tokens: int) -> float:
        """Seconds of one decode step of ``sequences`` that read ``kv_tokens`` of cache."""
        return (
            self.decode_base_s
            + sequences * self.decode_s_per_sequence
            + kv_tokens * self.decode_s_per_kv_token
        )


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text())


def models() -> list[str]:
    return sorted(_data()["models"])


def gpus() -> list[str]:
    return sorted(_data()["gpus"])


def gpu_costs(model: str, gpu: str) -> GpuCosts:
    """Costs of ``model`` on ``gpu``. Raises :class:`SettingsError` listing the choices."""
    data = _data()
    for kind, name in (("model", model), ("gpu", gpu)):
        if name not in data[f"{kind}s"]:
            choices = ", ".join(sorted(data[f"{kind}s"]))
            raise SettingsError(f"unknown {kind} {name!r}; choose one of: {choices}")
    costs = _roofline(model, gpu, data)
    costs |= data["fitted"].get(f"{model}/{gpu}", {})
    return GpuCosts(model=model, gpu=gpu, **costs)


def _roofline(model: str, gpu: str, data: dict[str, Any]) -> dict[str, Any]:
    """Prefill bound by arithmetic, decode by memory bandwidth, loads by the host link."""
    shape, card, factors = data["models"][model], data["gpus"][gpu], data["efficiency"]
    weights = shape["parameters"] * shape["bytes_per_parameter"]
    ranks = next(
        ranks
        for ranks in (1, 2, 4, 8)
        if ranks * card["memory_bytes"] * factors["memory_share"] > factors["least_fill"] * weights
    )
    bandwidth = ranks * card["bandwidth_bytes_per_s"] * factors["decode_bandwidth"]
    flops = ranks * card["bf16_flops"] * factors["prefill_flops"]
    memory = ranks * card["memory_bytes"] * factors["memory_share"] - weights
    return {
        "ranks": ranks,
        "prefill_tokens_per_s": flops / (2.0 * shape["parameters"]),
        "prefill_overhead_s": factors["step_overhead_s"],
        "decode_base_s": weights / bandwidth + factors["step_overhead_s"],
        "decode_s_per_sequence": 2.0 * shape["parameters"] / flops,
        "decode_s_per_kv_token": shape["kv_bytes_per_token"] / bandwidth,
        "load_tokens_per_s": ranks * card["host_link_bytes_per_s"] / shape["kv_bytes_per_token"],
        "kv_tokens": int(memory / shape["kv_bytes_per_token"]),
        "source": "roofline",
    }
