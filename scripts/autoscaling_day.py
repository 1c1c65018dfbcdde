#!/usr/bin/env python3
"""A day of traffic in the simulator: the project's autoscaling against ongoing requests.

Both see the same workflows at the same times on the same simulated engines, under the same bounds,
start-up time and delays; each is run for several targets, so that GPU hours can be compared at
equal latency. The load follows a day: a sine from the trough at night to the peak at noon.

Usage: scripts/autoscaling_day.py [--hours 4] [--peak 0.8] [--seed N] [--json FILE]
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pbkv.settings import PolicySettings
from pbkv.sim import EngineLimits, Simulation, gpu_costs
from pbkv.sim.cluster import ClusterShape, Scaler, active_share, simulate_cluster
from pbkv.sim.loop import SimReplica
from pbkv.workload import ScriptedWorkflow, make_workflows
from services.autoscaling import ReplicaDemand, Target, wanted_replicas

TROUGH_SHARE = 0.1
ACTIVE_TARGETS = (0.5, 0.6, 0.75, 0.9)
ONGOING_TARGETS = (1.0, 2.0, 4.0, 8.0)
_INTERVAL_S = 10.0
_LOOKS_BACK = 3


@dataclass(frozen=True)
class Day:
    """``peak_per_s`` workflows begin per second at noon, ``TROUGH_SHARE`` of that at midnight."""

    hours: float
    peak_per_s: float
    seed: int = 0

    def starts_s(self) -> list[float]:
        """Times of a Poisson process whose rate follows the day, ascending."""
        rng = random.Random(self.seed)
        end_s, now_s, starts = self.hours * 3600, 0.0, []
        while True:
            now_s += rng.expovariate(self.peak_per_s)
            if now_s >= end_s:
                return starts
            depth = (1 - math.cos(2 * math.pi * now_s / end_s)) / 2
            if rng.random() < TROUGH_SHARE + (1 - TROUGH_SHARE) * depth:
                starts.append(now_s)


@dataclass(frozen=True)
class Row:
    """What one policy at one target came to."""

    policy: str
    target: float
    gpu_hours: float
    latency_mean_s: float
    latency_p95_s: float
    ttft_mean_s: float
    hit_rate: float
    replicas_peak: int
    replicas_started: int


def by_working_set(active_fraction: float) -> Scaler:
    """The project's policy, :func:`services.autoscaling.wanted_replicas`."""
    target = Target(active_fraction=active_fraction)

    def scaler(ready: Sequence[SimReplica], present: int) -> int:
        demands = [
            ReplicaDemand(min(1.0, active_share(r)), float(len(r.engine.queue))) for r in ready
        ]
        return wanted_replicas(demands, present, target)

    return scaler


def by_ongoing_requests(per_replica: float) -> Scaler:
    """Serve's default: so many that each has ``per_replica`` running or waiting requests, by the
    mean of the last looks, as Serve takes one over its ``look_back_period_s`` of 30 s.
    """
    seen: deque[int] = deque(maxlen=_LOOKS_BACK)

    def scaler(ready: Sequence[SimReplica], present: int) -> int:
        seen.append(sum(len(r.engine.running) + len(r.engine.queue) for r in ready))
        return max(1, math.ceil(sum(seen) / len(seen) / per_replica))

    return scaler


def run(
    day: Day, scripts: Sequence[ScriptedWorkflow], policy: str, target: float, kv_tokens: int
) -> Row:
    """One day under one policy. ``policy`` is ``working-set`` or ``ongoing-requests``."""
    simulation = Simulation(
        policy="lae",
        queue="fcfs",
        concurrency=1,
        limits=EngineLimits(kv_tokens=kv_tokens, max_running_requests=64),
        costs=gpu_costs("qwen3-14b", "h100"),
        settings=PolicySettings(),
    )
    shape = ClusterShape(
        replicas=1, max_replicas=16, start_up_s=90.0, interval_s=_INTERVAL_S, down_delay_s=300.0
    )
    make = by_working_set if policy == "working-set" else by_ongoing_requests
    starts = day.starts_s()
    result = simulate_cluster(
        simulation, scripts[: len(starts)], shape, starts_s=starts, scaler=make(target)
    )
    served = result.served
    return Row(
        policy=policy,
        target=target,
        gpu_hours=result.replica_seconds / 3600,
        latency_mean_s=served.latency_mean_s,
        latency_p95_s=served.latency_p95_s,
        ttft_mean_s=served.ttft_mean_s,
        hit_rate=served.hit_rate,
        replicas_peak=result.replicas_peak,
        replicas_started=result.replicas_started,
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--hours", type=float, default=4.0, help="length of the day")
    parser.add_argument("--peak", type=float, default=0.8, help="workflows per second at noon")
    parser.add_argument("--workload", default="swebench")
    parser.add_argument("--kv-tokens", type=int, default=60_000, help="pool of each replica")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--rule", choices=("both", "working-set", "ongoing-requests"), default="both"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    day = Day(options.hours, options.peak, options.seed)
    count = len(day.starts_s())
    scripts = make_workflows(options.workload, count, seed=options.seed, scale=1.0, data_dir=None)
    print(f"{options.workload}: {count} workflows in {options.hours:g} h")
    rows = []
    plan = [("working-set", t) for t in ACTIVE_TARGETS]
    plan += [("ongoing-requests", t) for t in ONGOING_TARGETS]
    for policy, target in [step for step in plan if options.rule in ("both", step[0])]:
        row = run(day, scripts, policy, target, options.kv_tokens)
        rows.append(row)
        print(
            f"{policy:17} {target:5g}  {row.gpu_hours:6.1f} GPU h"
            f"  latency {row.latency_mean_s:6.1f} s p95 {row.latency_p95_s:6.1f} s"
            f"  ttft {row.ttft_mean_s:5.2f} s"
            f"  hit {row.hit_rate:.3f}  peak {row.replicas_peak}, started {row.replicas_started}",
            flush=True,
        )
    if options.json is not None:
        from dataclasses import asdict

        from services.bench.report import environment, write_json

        write_json(options.json, sys.argv[1:], environment(), [asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
