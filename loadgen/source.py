"""The workflows of a run: a named workload, a captured trace or a Mooncake trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loadgen.errors import BadLoad
from pbkv.trace import read_traces, workflows_of
from pbkv.trace.replay import ContextLayout, scripted_workflows
from pbkv.workload import WORKLOADS, ScriptedWorkflow, make_workflows
from pbkv.workload.mooncake import (
    conversation_starts,
    is_mooncake,
    mooncake_workflows,
    read_mooncake,
)


@dataclass(frozen=True, slots=True)
class Source:
    """Scripts in order, and when each began in the trace it comes from; empty without one."""

    name: str
    scripts: tuple[ScriptedWorkflow, ...]
    starts_s: tuple[float, ...] = ()


def load_source(
    workload: str,
    count: int | None,
    *,
    seed: int,
    scale: float = 1.0,
    data_dir: Path | None = None,
    layout: ContextLayout = ContextLayout.PRIVATE,
) -> Source:
    """``count`` workflows of a workload by name, or of a trace file (all of it for None).

    Raises :class:`BadLoad` and the library's own errors for data that cannot be read.
    """
    if workload in WORKLOADS:
        scripts = make_workflows(workload, count or 1, seed=seed, scale=scale, data_dir=data_dir)
        return Source(workload, tuple(scripts))
    path = Path(workload)
    if not path.is_file():
        names = ", ".join(sorted(WORKLOADS))
        raise BadLoad(f"no workload and no trace file {workload!r}; workloads: {names}")
    scripts, starts_s = _mooncake(path, scale) if is_mooncake(path) else _captured(path, layout)
    if count is not None and count > len(scripts):
        raise BadLoad(f"{path} holds {len(scripts)} workflows, not {count}")
    if not scripts:
        raise BadLoad(f"{path} holds no workflow that was served")
    began_s = min(starts_s)
    return Source(
        path.stem, tuple(scripts[:count]), tuple(at_s - began_s for at_s in starts_s[:count])
    )


def _mooncake(path: Path, scale: float) -> tuple[list[ScriptedWorkflow], list[float]]:
    requests = read_mooncake(path)
    return mooncake_workflows(requests, scale=scale), conversation_starts(requests)


def _captured(path: Path, layout: ContextLayout) -> tuple[list[ScriptedWorkflow], list[float]]:
    traces = [trace for trace in workflows_of(read_traces(path)) if trace.served]
    return scripted_workflows(traces, layout), [trace.started_at_s for trace in traces]
