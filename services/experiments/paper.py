"""The paper's numbers, read from ``paper.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("paper.toml")

METRICS = ("latency_mean_s", "ttft_mean_s", "hit_rate")
"""The measured keys of Tables 1 and 2, in their order."""


@dataclass(frozen=True, slots=True)
class PaperValue:
    """Mean and standard deviation over the paper's runs; a hit rate is in percent."""

    mean: float
    std: float


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text())


def table2() -> dict[tuple[str, str], dict[str, dict[str, PaperValue]]]:
    """(model, workload) -> policy -> metric -> value."""
    return {
        (model, workload): {
            policy: {
                metric: PaperValue(*numbers[2 * place : 2 * place + 2])
                for place, metric in enumerate(METRICS)
            }
            for policy, numbers in policies.items()
        }
        for model, workloads in _data()["table2"].items()
        for workload, policies in workloads.items()
    }


def table4_us() -> dict[str, tuple[float, float]]:
    """Component -> mean and 99th percentile in microseconds."""
    return {name: (mean, p99) for name, (mean, p99) in _data()["table4"].items()}


def accuracies() -> dict[str, tuple[float, ...]]:
    """Predictor -> top-1 accuracy at 1, 2 and 3 calls ahead, best first."""
    return {name: tuple(steps) for name, steps in _data()["table3"].items()}
