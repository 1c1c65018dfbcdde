"""Scripted multi-agent workflows, by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from pbkv.errors import SettingsError
from pbkv.workload.data import WorkloadDataError, load_call_lengths, load_claims
from pbkv.workload.financebench import (
    financebench_workflow,
    load_questions,
    sample_questions,
)
from pbkv.workload.hover import hover_workflow
from pbkv.workload.sample import sample_call_lengths, sample_claims
from pbkv.workload.script import ScriptedCall, ScriptedWorkflow, Segment
from pbkv.workload.swebench import swebench_workflow


def _hover(count: int, seed: int, scale: float, data_dir: Path | None) -> list[ScriptedWorkflow]:
    claims = load_claims(data_dir) if data_dir else sample_claims(max(count, 200))
    if count > len(claims):
        raise WorkloadDataError(f"{data_dir} holds {len(claims)} claims, not {count}")
    chosen = random.Random(f"hover/{seed}").sample(claims, count)
    return [
        hover_workflow(claim, index, seed=seed, scale=scale) for index, claim in enumerate(chosen)
    ]


def _swebench(count: int, seed: int, scale: float, data_dir: Path | None) -> list[ScriptedWorkflow]:
    traces = load_call_lengths(data_dir) if data_dir else sample_call_lengths(max(count, 100))
    chosen = random.Random(f"swebench/{seed}").choices(traces, k=count)
    return [
        swebench_workflow(trace, index, seed=seed, scale=scale)
        for index, trace in enumerate(chosen)
    ]


def _financebench(
    count: int, seed: int, scale: float, data_dir: Path | None
) -> list[ScriptedWorkflow]:
    questions = sample_questions(count, seed)
    if data_dir:
        questions = random.Random(f"finance/{seed}").choices(load_questions(data_dir), k=count)
    return [
        financebench_workflow(question, index, seed=seed, scale=scale)
        for index, question in enumerate(questions)
    ]


WORKLOADS: dict[str, Callable[[int, int, float, Path | None], list[ScriptedWorkflow]]] = {
    "financebench": _financebench,
    "hover": _hover,
    "swebench": _swebench,
}


def make_workflows(
    workload: str, count: int, *, seed: int, scale: float = 1.0, data_dir: Path | None = None
) -> list[ScriptedWorkflow]:
    """``count`` workflows of a named workload; from ``data_dir``, or the generated sample.

    Raises :class:`SettingsError` for an unknown name and :class:`WorkloadDataError` for bad data.
    """
    make = WORKLOADS.get(workload)
    if make is None:
        raise SettingsError(
            f"unknown workload {workload!r}; choose one of: {', '.join(sorted(WORKLOADS))}"
        )
    return make(count, seed, scale, data_dir)


__all__ = [
    "WORKLOADS",
    "ScriptedCall",
    "ScriptedWorkflow",
    "Segment",
    "WorkloadDataError",
    "make_workflows",
]
