"""``pbkv bench engine``: policies side by side on the real engine, interleaved in one run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from pbkv.settings import PolicySettings
from pbkv.workload import ScriptedWorkflow, make_workflows
from services.bench.counters import evicted_tokens
from services.bench.drive import BenchError, replay
from services.bench.proportion import Proportion, measure_proportion
from services.bench.render import SegmentRenderer
from services.bench.summary import summarise
from services.bench.variant import Variant
from services.engine import EngineOptions, EngineProcess
from services.ports import free_port

TOKENS_PER_WORKFLOW = 812
"""Device KV tokens per concurrent workflow at scale 1, as the paper's HoVer point implies:
58,500 tokens for 72 workflows."""

_READY_TIMEOUT_S = 300.0
_PAGE_SIZE = 16


@dataclass(frozen=True, slots=True)
class EngineBench:
    """What to run. ``kv_tokens`` and ``max_running`` are per engine; ``settings`` are those of the
    plug-in but for policy and queue, which the variants say."""

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

    def script(self, repeat: int) -> list[ScriptedWorkflow]:
        """The workflows of one repeat: the same for every variant, others in each repeat."""
        return make_workflows(
            self.workload,
            self.workflows,
            seed=self.seed + repeat,
            scale=self.scale,
            data_dir=self.data_dir,
        )


def default_kv_tokens(concurrency: int, scale: float) -> int:
    """A pool under the memory pressure of the paper's HoVer point, in whole pages."""
    pages = round(TOKENS_PER_WORKFLOW * concurrency * scale / _PAGE_SIZE)
    return max(1, pages) * _PAGE_SIZE


@dataclass(frozen=True, slots=True)
class EngineBenchResult:
    rows: list[dict[str, Any]]
    proportion: Proportion


async def run_engine_bench(
    bench: EngineBench, variants: list[Variant], say: Callable[[str], None]
) -> EngineBenchResult:
    """Start one engine per variant, then replay: every repeat runs all variants, in turning order.

    All engines stay up, since a start takes longer than a replay; only one is driven at a time and
    the others sleep. Raises :class:`BenchError` or an engine's error.
    """
    check_prompts(bench)
    renderer = SegmentRenderer(bench.model_path)
    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pbkv-bench-")))
        say(f"starting {len(variants)} engines: {', '.join(v.name for v in variants)}")
        engines = [
            stack.enter_context(_engine(bench, variant, logs / f"{number}.log"))
            for number, variant in enumerate(variants)
        ]
        for engine in engines:
            await asyncio.to_thread(engine.wait_ready, _READY_TIMEOUT_S)
        proportion = await measure_proportion(engines[0].url)
        say(
            f"1,000 tokens of prefill cost {1000 * proportion.prefill_1000_s:.0f} ms, "
            f"a decode step {1000 * proportion.decode_step_s:.1f} ms: "
            f"{proportion.steps_per_1000_tokens:.0f} steps (24 on the paper's GPUs)"
        )
        rows: list[dict[str, Any]] = []
        for repeat in range(bench.repeats):
            script = bench.script(repeat)
            turn = repeat % len(variants)
            order = list(zip(variants, engines, strict=True))
            for variant, engine in order[turn:] + order[:turn]:
                row = await _measure(bench, variant, engine, renderer, script, repeat)
                rows.append(row)
                say(
                    f"repeat {repeat + 1}/{bench.repeats} {variant.name}: "
                    f"hit {100 * row['hit_rate']:.1f} %, latency {row['latency_mean_s']:.2f} s"
                )
    return EngineBenchResult(rows, proportion)


def check_prompts(bench: EngineBench) -> None:
    """Raise :class:`BenchError` before anything starts if a prompt cannot fit."""
    limit = min(bench.context_length, bench.kv_tokens)
    for repeat in range(bench.repeats):
        for workflow in bench.script(repeat):
            for call, length in zip(workflow.calls, workflow.prompt_tokens(), strict=True):
                if length + call.output_tokens > limit:
                    raise BenchError(
                        f"a call of {workflow.workflow_id} needs {length + call.output_tokens} "
                        f"tokens, more than the pool or context of {limit}; "
                        f"raise --kv-tokens or lower --scale"
                    )


async def _measure(
    bench: EngineBench,
    variant: Variant,
    engine: EngineProcess,
    renderer: SegmentRenderer,
    script: list[ScriptedWorkflow],
    repeat: int,
) -> dict[str, Any]:
    await _flush(engine.url)
    before = await evicted_tokens(engine.url)
    result = await replay(
        engine.url, script, renderer, variant.lifecycle, concurrency=bench.concurrency
    )
    evicted = (await evicted_tokens(engine.url)).since(before)
    return {
        "policy": variant.policy,
        "queue": variant.queue,
        "workload": bench.workload,
        "concurrency": bench.concurrency,
        "kv_tokens": bench.kv_tokens,
        "repeat": repeat,
        "scale": bench.scale,
        "access_model": bench.settings.access_model,
        "tie_rule": bench.settings.tie_rule,
        **summarise(result),
        "evicted_tokens": evicted.by_reason or {"total": evicted.device_total},
        "evicted_device_tokens": evicted.device_total,
    }


async def _flush(url: str) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/flush_cache", params={"timeout": 30}) as answer,
    ):
        if answer.status != 200:
            raise BenchError(f"flush_cache answered {answer.status}")


@contextmanager
def _engine(bench: EngineBench, variant: Variant, log_path: Path) -> Iterator[EngineProcess]:
    options = EngineOptions(
        model_path=bench.model_path,
        served_model_name="bench",
        port=free_port(),
        kv_tokens=bench.kv_tokens,
        context_length=bench.context_length,
        page_size=_PAGE_SIZE,
        host_ratio=bench.host_ratio,
        cache=variant.cache,
        policy=variant.policy_settings(bench.settings),
        schedule_policy=variant.schedule_policy,
        max_running_requests=bench.max_running,
        log_path=log_path,
        extra_args=("--skip-server-warmup", "--stream-interval", "8"),
    )
    engine = EngineProcess(options)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop(grace_s=0.0)
