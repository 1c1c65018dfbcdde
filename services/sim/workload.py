"""The workflows of a simulation: a named workload, or a file of traces."""

from __future__ import annotations

from pathlib import Path

from pbkv.errors import SettingsError
from pbkv.workload import WORKLOADS, ScriptedWorkflow, make_workflows
from pbkv.workload.mooncake import is_mooncake, mooncake_workflows, read_mooncake


def is_trace_file(workload: str) -> bool:
    """Whether ``workload`` names a file and no workload."""
    return workload not in WORKLOADS and Path(workload).suffix != ""


def load_workload(
    workload: str, count: int, *, seed: int, scale: float, data_dir: Path | None
) -> list[ScriptedWorkflow]:
    """``count`` workflows of a named workload; of a trace, its first ``count``, for every seed.

    Raises :class:`SettingsError` for an unknown name, and what the reader of a file raises.
    """
    if not is_trace_file(workload):
        return make_workflows(workload, count, seed=seed, scale=scale, data_dir=data_dir)
    path = Path(workload)
    if not path.is_file():
        raise SettingsError(
            f"there is no file {workload}, and no workload of that name; "
            f"workloads: {', '.join(sorted(WORKLOADS))}"
        )
    if is_mooncake(path):
        return mooncake_workflows(read_mooncake(path), scale=scale)[:count]
    from pbkv.trace import read_traces, workflows_of
    from pbkv.trace.replay import scripted_workflows

    return scripted_workflows(workflows_of(read_traces(path)))[:count]
