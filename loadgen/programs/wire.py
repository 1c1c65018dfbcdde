"""What the load generator and the process of the programs tell each other, one JSON line each.

To the programs: first a :class:`ProgramPlan`, then ``{"start": index}`` and ``{"cancel": index}``.
From them: ``{"ready": true}`` or ``{"problem": text}``, then ``{"call": {...}, "index": i}`` for
every call and ``{"ended": index, "state": ..., "detail": ...}`` for every workflow. Times are the
machine's monotonic clock, which both read.
"""

from __future__ import annotations

from dataclasses import dataclass

FRAMEWORKS = {"hover": "langgraph", "swebench": "autogen", "financebench": "crewai"}
"""The framework in which each workload is written, as in the paper."""


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """What the programs need; plain values, to go as JSON."""

    workload: str
    count: int
    seed: int
    scale: float
    data_dir: str
    decisions: str
    url: str
    model: str
    api_key: str
    prefix: str
    pause_scale: float
    exact_lengths: bool
    request_timeout_s: float
