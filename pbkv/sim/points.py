"""Operating points: how much of a workload meets how much memory, where nobody says otherwise."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pbkv.sim.costs import GpuCosts

_FILE = Path(__file__).with_name("points.toml")


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """``workflows`` in all, ``concurrency`` at a time; ``scale`` is the factor on token counts.

    ``fitted`` tells whether memory and running requests were fitted to the paper's LRU row of this
    workload, model and GPU.
    """

    workflows: int
    concurrency: int
    scale: float
    kv_tokens: int
    max_running_requests: int
    max_new_tokens: int | None
    fitted: bool


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text())


def operating_point(workload: str, costs: GpuCosts) -> OperatingPoint:
    """The point of a workload on a GPU; of an unknown workload, such as a trace, the default."""
    data = _data()
    point = dict(data["default"]) | data["workloads"].get(workload, {})
    pools = point.pop("pools", {})
    point.pop("also", None)
    fitted = pools.get(f"{costs.model}/{costs.gpu}")
    pool = fitted or {"kv_tokens": costs.kv_tokens}
    point |= pool
    return OperatingPoint(
        workflows=point["workflows"],
        concurrency=point["concurrency"],
        scale=point["scale"],
        kv_tokens=point["kv_tokens"],
        max_running_requests=point["max_running_requests"],
        max_new_tokens=point["max_new_tokens"] or None,
        fitted=fitted is not None,
    )


def other_fits(workload: str, costs: GpuCosts) -> list[OperatingPoint]:
    """Further points that fit the same LRU row, as ``scripts/fit_points.py`` found them."""
    point = operating_point(workload, costs)
    fits = _data()["workloads"].get(workload, {}).get("also", {})
    return [replace(point, **fit) for fit in fits.get(f"{costs.model}/{costs.gpu}", ())]
