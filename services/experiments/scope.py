"""How much is simulated, and the settings that all experiments start from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pbkv.settings import PolicySettings
from pbkv.sim import gpu_costs
from pbkv.sim.points import operating_point
from pbkv.workload import make_workflows
from services.sim.graph import default_graph
from services.sim.grid import GridCell
from services.sim.variant import make_variants

PAPER_GPU = "a6000"
WORKLOADS = ("hover", "swebench", "financebench")
MODELS = ("qwen3-32b", "qwen3-14b")
TITLES = {
    "hover": "HoVer + LangChain",
    "swebench": "SWE-bench + AutoGen",
    "financebench": "FinanceBench + CrewAI (static)",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """``seeds`` sets of workflows for the tables, ``sweep_seeds`` for everything else.

    ``workflows`` of one set; None is as many as the workload's operating point says.
    """

    seeds: int = 10
    sweep_seeds: int = 5
    workflows: int | None = None
    data_dir: Path | None = None

    def cell(self, workload: str, policy: str, model: str = MODELS[0]) -> GridCell:
        """The paper's point of a workload under ``policy``, written as for ``pbkv simulate``,
        queue ``fcfs`` unless it names another; its seed is yet to be set."""
        point = operating_point(workload, gpu_costs(model, PAPER_GPU))
        point = replace(point, workflows=self.workflows or point.workflows)
        (variant,) = make_variants([policy], ["fcfs"])
        graph = ""
        if variant.policy == "kvflow":
            graph = _graph(workload, point.workflows, point.scale, self.data_dir)
        return GridCell(
            workload=workload,
            model=model,
            gpu=PAPER_GPU,
            variant=variant,
            point=point,
            kv_scale=1.0,
            host_ratio=1.0,
            seed=0,
            settings=PolicySettings(agent_graph=graph),
            data_dir=self.data_dir,
        )


@cache
def _graph(workload: str, count: int, scale: float, data_dir: Path | None) -> str:
    return default_graph(make_workflows(workload, count, seed=1, scale=scale, data_dir=data_dir))


def at_concurrency(cell: GridCell, concurrency: int) -> GridCell:
    """``cell`` with another number of workflows at a time."""
    return replace(cell, point=replace(cell.point, concurrency=concurrency))


def with_settings(cell: GridCell, **changes: object) -> GridCell:
    """``cell`` with other policy settings."""
    return replace(cell, settings=replace(cell.settings, **changes))  # type: ignore[arg-type]
