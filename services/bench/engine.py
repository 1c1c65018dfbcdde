"""``pbkv bench engine``: policies side by side on the real engine, interleaved in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pbkv.settings import PolicySettings
from pbkv.workload import ScriptedWorkflow, make_workflows
from services.bench.counters import read_counters
from services.bench.drive import BenchError, replay
from services.bench.engines import EXTRA_ARGS, PAGE_SIZE, flush, running_engines, whole_pages
from services.bench.predictors import PredictorFiles
from services.bench.proportion import Proportion, measure_proportion
from services.bench.render import SegmentRenderer
from services.bench.summary import count_tokens, summarise
from services.bench.variant import Variant
from services.engine import EngineOptions, EngineProcess
from services.ports import free_port


@dataclass(frozen=True, slots=True)
class EngineBench:
    """What to run. ``kv_tokens`` and ``max_running`` are per engine; ``settings`` are those of the
    plug-in but for what the variants say. ``pool_scales`` are multiples of ``kv_tokens``."""

    workload: str
    workflows: int
    concurrency: int
    repeats: int
    scale: float
    seed: int
    kv_tokens: int
    max_running: int
    host_ratio: float
    context_length: int
    data_dir: Path | None
    model_path: Path
    settings: PolicySettings = field(default_factory=PolicySettings)
    pool_scales: tuple[float, ...] = (1.0,)

    def script(self, repeat: int) -> list[ScriptedWorkflow]:
        """The workflows of one repeat: the same for every variant, others in each repeat."""
        return make_workflows(
            self.workload,
            self.workflows,
            seed=self.seed + repeat,
            scale=self.scale,
            data_dir=self.data_dir,
        )

    def pool_tokens(self, pool_scale: float) -> int:
        """The device pool at a scale, in whole pages."""
        return whole_pages(self.kv_tokens * pool_scale)


async def run_engine_bench(
    bench: EngineBench,
    variants: Sequence[Variant],
    say: Callable[[str], None],
    on_row: Callable[[dict[str, Any]], None],
) -> None:
    """At every pool scale, start one engine per variant and replay: each repeat runs all variants,
    in turning order. ``on_row`` is given each measurement as soon as it is made.

    The engines of one scale are up together, since a start takes longer than many a replay; only
    one is driven at a time and the others sleep. Raises :class:`BenchError` or an engine's error.
    """
    renderer = SegmentRenderer(bench.model_path)
    scripts = [bench.script(repeat) for repeat in range(bench.repeats)]
    with tempfile.TemporaryDirectory(prefix="pbkv-bench-") as folder:
        predictors = PredictorFiles(
            Path(folder),
            bench.workload,
            [workflow for script in scripts for workflow in script],
            scale=bench.scale,
            seed=bench.seed,
            data_dir=bench.data_dir,
        )
        for pool_scale in bench.pool_scales:
            point = _Point(bench, pool_scale, renderer, scripts, say, on_row)
            engines = [
                point.options(variant, predictors, Path(folder) / f"{pool_scale}-{number}.log")
                for number, variant in enumerate(variants)
            ]
            await point.measure(variants, engines)


def check_prompts(bench: EngineBench) -> None:
    """Raise :class:`BenchError` before anything starts if a prompt cannot fit."""
    smallest = bench.pool_tokens(min(bench.pool_scales))
    limit = min(bench.context_length, smallest)
    for repeat in range(bench.repeats):
        for workflow in bench.script(repeat):
            for call, length in zip(workflow.calls, workflow.prompt_tokens(), strict=True):
                if length + call.output_tokens > limit:
                    raise BenchError(
                        f"a call of {workflow.workflow_id} needs {length + call.output_tokens} "
                        f"tokens, more than the smallest pool or context of {limit}; "
                        f"raise --kv-tokens or lower --scale"
                    )


@dataclass(frozen=True, slots=True)
class _Point:
    """The measurements at one size of the pool."""

    bench: EngineBench
    pool_scale: float
    renderer: SegmentRenderer
    scripts: Sequence[list[ScriptedWorkflow]]
    say: Callable[[str], None]
    on_row: Callable[[dict[str, Any]], None]

    def options(
        self, variant: Variant, predictors: PredictorFiles, log_path: Path
    ) -> EngineOptions:
        bench = self.bench
        return EngineOptions(
            model_path=bench.model_path,
            served_model_name="bench",
            port=free_port(),
            kv_tokens=bench.pool_tokens(self.pool_scale),
            context_length=bench.context_length,
            page_size=PAGE_SIZE,
            host_ratio=bench.host_ratio,
            cache=variant.cache,
            policy=predictors.resolve(variant.policy_settings(bench.settings)),
            schedule_policy=variant.schedule_policy,
            max_running_requests=bench.max_running,
            log_path=log_path,
            extra_args=EXTRA_ARGS,
        )

    async def measure(self, variants: Sequence[Variant], options: Sequence[EngineOptions]) -> None:
        say, bench = self.say, self.bench
        kv_tokens = bench.pool_tokens(self.pool_scale)
        say(
            f"pool of {kv_tokens:,} tokens, starting {len(variants)} engines: "
            f"{', '.join(v.name for v in variants)}"
        )
        async with running_engines(options) as engines:
            proportion = await measure_proportion(engines[0].url, kv_tokens)
            say(
                f"1,000 tokens of prefill cost {1000 * proportion.prefill_1000_s:.0f} ms, "
                f"a decode step {1000 * proportion.decode_step_s:.1f} ms: "
                f"{proportion.steps_per_1000_tokens:.0f} steps (24 on the paper's GPUs)"
            )
            order = list(zip(variants, engines, strict=True))
            for repeat in range(bench.repeats):
                turn = repeat % len(variants)
                for variant, engine in order[turn:] + order[:turn]:
                    row = await self._replay(variant, engine, repeat, proportion)
                    self.on_row(row)
                    say(
                        f"pool x {self.pool_scale:g}, repeat {repeat + 1}/{bench.repeats} "
                        f"{variant.name}: hit {100 * row['hit_rate']:.1f} %, "
                        f"latency {row['latency_mean_s']:.2f} s, took {row['duration_s']:.0f} s"
                    )

    async def _replay(
        self, variant: Variant, engine: EngineProcess, repeat: int, proportion: Proportion
    ) -> dict[str, Any]:
        bench = self.bench
        await flush(engine.url)
        before = await read_counters(engine.url)
        result = await replay(
            engine.url,
            self.scripts[repeat],
            self.renderer,
            variant.lifecycle,
            concurrency=bench.concurrency,
        )
        counted = (await read_counters(engine.url)).since(before)
        return {
            **variant.describe(bench.settings),
            "workload": bench.workload,
            "concurrency": bench.concurrency,
            "max_running": bench.max_running,
            "kv_tokens": bench.pool_tokens(self.pool_scale),
            "kv_scale": self.pool_scale,
            "host_ratio": bench.host_ratio,
            "repeat": repeat,
            "seed": bench.seed + repeat,
            "scale": bench.scale,
            **summarise(result),
            **count_tokens(counted),
            **asdict(proportion),
        }
