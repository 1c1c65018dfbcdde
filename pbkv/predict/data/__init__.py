"""Traces to train on, by name of the workload."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from pbkv.errors import SettingsError
from pbkv.predict.data.hover import hover_trace
from pbkv.predict.data.prompted import PromptedCall, PromptedWorkflow
from pbkv.predict.data.swebench import swebench_trace
from pbkv.predict.data.who_and_when import load_logs
from pbkv.workload.data import WorkloadDataError, load_call_lengths, load_claims
from pbkv.workload.sample import sample_call_lengths, sample_claims


def _hover(count: int, seed: int, data_dir: Path | None) -> list[PromptedWorkflow]:
    claims = load_claims(data_dir) if data_dir else sample_claims(max(count, 200))
    if count > len(claims):
        raise WorkloadDataError(f"{count} traces are asked for; HoVer has {len(claims)} claims")
    chosen = random.Random(f"hover-traces/{seed}").sample(claims, count)
    return [hover_trace(claim, index, seed=seed) for index, claim in enumerate(chosen)]


def _swebench(count: int, seed: int, data_dir: Path | None) -> list[PromptedWorkflow]:
    traces = load_call_lengths(data_dir) if data_dir else sample_call_lengths(count, seed)
    chosen = random.Random(f"swebench-traces/{seed}").sample(traces, min(count, len(traces)))
    return [swebench_trace(trace, index) for index, trace in enumerate(chosen)]


def _who_and_when(count: int, seed: int, data_dir: Path | None) -> list[PromptedWorkflow]:
    if data_dir is None:
        raise WorkloadDataError("who-and-when has no generated sample; name its folder by --data")
    logs = load_logs(data_dir)
    return random.Random(f"logs/{seed}").sample(logs, min(count, len(logs)))


TRACES: dict[str, Callable[[int, int, Path | None], list[PromptedWorkflow]]] = {
    "hover": _hover,
    "swebench": _swebench,
    "who-and-when": _who_and_when,
}


def make_traces(
    workload: str, count: int, *, seed: int, data_dir: Path | None = None
) -> list[PromptedWorkflow]:
    """Up to ``count`` traces of a named workload, first to last in time.

    Raises :class:`SettingsError` for an unknown name and :class:`WorkloadDataError` for bad data.
    """
    make = TRACES.get(workload)
    if make is None:
        raise SettingsError(
            f"unknown workload {workload!r}; choose one of: {', '.join(sorted(TRACES))}"
        )
    return make(count, seed, data_dir)


__all__ = ["TRACES", "PromptedCall", "PromptedWorkflow", "make_traces"]
