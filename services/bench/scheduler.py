"""``pbkv bench scheduler``: CPU time of the scheduler process per request, plug-in against stock.

The pool holds everything, so that no policy has anything to decide: what is left is what the
plug-in costs on the way of every request. The scheduler process runs the model too, the same in
every variant; the smaller the model, the stricter the comparison.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich.table import Table

from pbkv.settings import PolicySettings
from pbkv.workload import ScriptedWorkflow, make_workflows
from services.bench.counters import read_counters
from services.bench.drive import BenchError, Replay, replay
from services.bench.engines import EXTRA_ARGS, PAGE_SIZE, flush, running_engines, whole_pages
from services.bench.render import SegmentRenderer
from services.bench.variant import STOCK_LRU, Variant
from services.engine import EngineOptions, EngineProcess
from services.ports import free_port

TARGET_RATIO = 1.05
_SCHEDULER = "sglang::scheduler"
"""How SGLang names its scheduler processes; a rank may follow."""


@dataclass(frozen=True, slots=True)
class SchedulerBench:
    """What to run: ``repeats`` rounds of ``workflows`` workflows, ``concurrency`` at a time."""

    workload: str
    workflows: int
    concurrency: int
    repeats: int
    scale: float
    seed: int
    host_ratio: float
    context_length: int
    data_dir: Path | None
    model_path: Path
    settings: PolicySettings = field(default_factory=PolicySettings)

    def script(self, repeat: int) -> list[ScriptedWorkflow]:
        """The workflows of one round, the same for every variant."""
        return make_workflows(
            self.workload,
            self.workflows,
            seed=self.seed + repeat,
            scale=self.scale,
            data_dir=self.data_dir,
        )

    def kv_tokens(self) -> int:
        """A pool that holds all that a round computes, twice over."""
        rounds = (self.script(repeat) for repeat in range(self.repeats))
        return whole_pages(2 * max(sum(map(_kv_tokens, workflows)) for workflows in rounds))


async def run_scheduler_bench(
    bench: SchedulerBench,
    variants: Sequence[Variant],
    say: Callable[[str], None],
    on_row: Callable[[dict[str, Any]], None],
) -> None:
    """Replay every round under all variants, in turning order. Variants should have stock LRU among
    them, to be compared with. Raises :class:`BenchError`, also if anything was evicted."""
    renderer = SegmentRenderer(bench.model_path)
    with tempfile.TemporaryDirectory(prefix="pbkv-bench-") as folder:
        options = [
            EngineOptions(
                model_path=bench.model_path,
                served_model_name="bench",
                port=free_port(),
                kv_tokens=bench.kv_tokens(),
                context_length=bench.context_length,
                page_size=PAGE_SIZE,
                host_ratio=bench.host_ratio,
                cache=variant.cache,
                policy=variant.policy_settings(bench.settings),
                schedule_policy=variant.schedule_policy,
                log_path=Path(folder) / f"{number}.log",
                extra_args=EXTRA_ARGS,
            )
            for number, variant in enumerate(variants)
        ]
        say(f"starting {len(variants)} engines: {', '.join(v.name for v in variants)}")
        async with running_engines(options) as engines:
            order = list(zip(variants, engines, strict=True))
            for variant, engine in order:
                # What a first request pays once, and no later one.
                await _measure(bench, variant, engine, renderer, bench.script(0))
            for repeat in range(bench.repeats):
                turn = repeat % len(order)
                for variant, engine in order[turn:] + order[:turn]:
                    script = bench.script(repeat)
                    cpu_s, result = await _measure(bench, variant, engine, renderer, script)
                    requests = len(result.calls)
                    on_row(
                        {
                            **variant.describe(bench.settings),
                            "workload": bench.workload,
                            "concurrency": bench.concurrency,
                            "host_ratio": bench.host_ratio,
                            "repeat": repeat,
                            "requests": requests,
                            "output_tokens": sum(call.output_tokens for call in result.calls),
                            "duration_s": result.duration_s,
                            "cpu_ms_per_request": 1000 * cpu_s / requests,
                        }
                    )
                say(f"round {repeat + 1}/{bench.repeats}")


async def _measure(
    bench: SchedulerBench,
    variant: Variant,
    engine: EngineProcess,
    renderer: SegmentRenderer,
    script: Sequence[ScriptedWorkflow],
) -> tuple[float, Replay]:
    await flush(engine.url)
    evicted = (await read_counters(engine.url)).evicted_device
    schedulers = _schedulers(engine)
    before_s = sum(map(_cpu_s, schedulers))
    result = await replay(
        engine.url, script, renderer, variant.lifecycle, concurrency=bench.concurrency
    )
    cpu_s = sum(map(_cpu_s, schedulers)) - before_s
    if (await read_counters(engine.url)).evicted_device > evicted:
        raise BenchError(f"{variant.name} evicted something, which this comparison excludes")
    return cpu_s, result


def _schedulers(engine: EngineProcess) -> list[psutil.Process]:
    family = psutil.Process(engine.pid).children(recursive=True)
    found = [process for process in family if _title(process).startswith(_SCHEDULER)]
    if not found:
        raise BenchError(f"no process of the engine is named {_SCHEDULER}")
    return found


def _title(process: psutil.Process) -> str:
    # A process title takes the place of the command line; the name is cut to 15 characters.
    return " ".join(process.cmdline())


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _kv_tokens(workflow: ScriptedWorkflow) -> int:
    """At most as many tokens as the workflow adds to a cache that forgets nothing."""
    held = sum(s.num_tokens for segments in workflow.contexts.values() for s in segments)
    for call in workflow.calls:
        added = sum(s.num_tokens for s in (*call.added, *call.instruction))
        # A request also takes what is left of its last page.
        held += added + call.output_tokens + PAGE_SIZE
    return held


def ratios_to_stock(rows: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """By variant: its CPU time per request over that of stock LRU in the same round."""
    stock = {row["repeat"]: row["cpu_ms_per_request"] for row in rows if row["policy"] == STOCK_LRU}
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row["repeat"] in stock:
            ratio = row["cpu_ms_per_request"] / stock[row["repeat"]]
            ratios.setdefault(row["variant"], []).append(ratio)
    return ratios


def scheduler_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Median per variant, and the ratio to stock with its quartiles over rounds."""
    table = Table(title=f"CPU time of the scheduler process; target ratio {TARGET_RATIO}")
    table.add_column("variant")
    for column in ("ms a request", "ratio to stock", "quartiles", "met"):
        table.add_column(column, justify="right")
    ratios = ratios_to_stock(rows)
    for variant in dict.fromkeys(row["variant"] for row in rows):
        times = [row["cpu_ms_per_request"] for row in rows if row["variant"] == variant]
        cells = ["", "", ""]
        if variant in ratios:
            ratio = statistics.median(ratios[variant])
            cells = [f"{ratio:.3f}", "", "yes" if ratio <= TARGET_RATIO else "no"]
            if len(ratios[variant]) > 1:
                low, _, high = statistics.quantiles(ratios[variant], n=4)
                cells[1] = f"{low:.3f} to {high:.3f}"
        table.add_row(variant, f"{statistics.median(times):.2f}", *cells)
    return table
