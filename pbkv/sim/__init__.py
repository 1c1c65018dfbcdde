"""Simulated serving: the same policies as in the engine, in simulated time, without tensors."""

from __future__ import annotations

from pbkv.sim.costs import GpuCosts, gpu_costs
from pbkv.sim.engine import EngineLimits
from pbkv.sim.result import SimulationResult
from pbkv.sim.simulate import Simulation, simulate

__all__ = [
    "EngineLimits",
    "GpuCosts",
    "Simulation",
    "SimulationResult",
    "gpu_costs",
    "simulate",
]
