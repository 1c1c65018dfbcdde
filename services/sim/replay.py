"""``pbkv replay``: the same calls through the simulator and through real SGLang."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from pbkv.invocation import PARAMS_KEY, Invocation
from pbkv.settings import PolicySettings
from pbkv.sim import EngineLimits, Simulation, gpu_costs
from pbkv.sim.sequence import FoundTokens, ScheduledCall, interleaved, simulate_sequence
from pbkv.workload import ScriptedWorkflow, Segment
from services.bench.counters import read_counters
from services.bench.drive import BenchError
from services.bench.engines import EXTRA_ARGS, PAGE_SIZE, flush, running_engines
from services.bench.render import SegmentRenderer
from services.engine import EngineOptions
from services.ports import free_port
from services.sim.graph import default_graph


@dataclass(frozen=True, slots=True)
class ReplayWorkload:
    """A workload, how many workflows at a time, and the pool that puts it under pressure."""

    name: str
    scripts: tuple[ScriptedWorkflow, ...]

    def calls(self, at_a_time: int) -> list[ScheduledCall]:
        return list(interleaved(self.scripts, at_a_time=at_a_time))


@dataclass(frozen=True, slots=True)
class ReplaySetup:
    """``kv_tokens`` and ``host_ratio`` are of every engine, simulated and real."""

    workloads: tuple[ReplayWorkload, ...]
    policies: tuple[str, ...]
    at_a_time: int
    kv_tokens: int
    host_ratio: float
    model_path: Path
    context_length: int
    settings: PolicySettings

    def policy_settings(self, policy: str) -> PolicySettings:
        scripts = [script for workload in self.workloads for script in workload.scripts]
        graph = self.settings.agent_graph or default_graph(scripts)
        return replace(self.settings, policy=policy, agent_graph=graph)

    def simulation(self, policy: str) -> Simulation:
        return Simulation(
            policy=policy,
            queue="fcfs",
            concurrency=1,
            limits=EngineLimits(
                kv_tokens=self.kv_tokens, host_ratio=self.host_ratio, page_size=PAGE_SIZE
            ),
            # One call at a time: no duration changes what is found.
            costs=gpu_costs("qwen3-14b", "a6000"),
            settings=self.policy_settings(policy),
        )


def without_text(script: ScriptedWorkflow) -> ScriptedWorkflow:
    """``script`` in synthetic tokens alone: how far two real texts share their tokens, only a
    tokenizer knows, which the simulator has not."""

    def bare(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        return tuple(replace(segment, text="") for segment in segments)

    return replace(
        script,
        contexts={name: bare(held) for name, held in script.contexts.items()},
        calls=tuple(
            replace(call, added=bare(call.added), instruction=bare(call.instruction))
            for call in script.calls
        ),
    )


def simulated_rows(setup: ReplaySetup) -> list[dict[str, Any]]:
    """One row per policy and workload, from the simulator."""
    rows = []
    for policy in setup.policies:
        for workload in setup.workloads:
            found, evicted = simulate_sequence(
                setup.simulation(policy), workload.scripts, workload.calls(setup.at_a_time)
            )
            rows.append(_row(policy, workload.name, "sim", found, evicted))
    return rows


async def real_rows(setup: ReplaySetup, on_row: Callable[[dict[str, Any]], None]) -> None:
    """The same from real engines, one per policy, which are emptied between workloads.

    Raises :class:`BenchError` or an engine's error.
    """
    renderer = SegmentRenderer(setup.model_path)
    with tempfile.TemporaryDirectory(prefix="pbkv-replay-") as folder:
        options = [
            EngineOptions(
                model_path=setup.model_path,
                served_model_name="replay",
                port=free_port(),
                kv_tokens=setup.kv_tokens,
                context_length=setup.context_length,
                page_size=PAGE_SIZE,
                host_ratio=setup.host_ratio,
                policy=setup.policy_settings(policy),
                schedule_policy="fcfs",
                log_path=Path(folder) / f"{policy}.log",
                extra_args=EXTRA_ARGS,
            )
            for policy in setup.policies
        ]
        async with running_engines(options) as engines:
            for policy, engine in zip(setup.policies, engines, strict=True):
                for workload in setup.workloads:
                    await flush(engine.url)
                    before = await read_counters(engine.url)
                    client = _Client(engine.url, renderer, workload.scripts)
                    found = await client.serve(workload.calls(setup.at_a_time))
                    counted = (await read_counters(engine.url)).since(before)
                    evicted = counted.evicted_by_reason
                    on_row(_row(policy, workload.name, "sglang", found, evicted))


class _Client:
    """Sends calls one after the other and keeps what each context holds, in tokens."""

    def __init__(
        self, url: str, renderer: SegmentRenderer, scripts: Iterable[ScriptedWorkflow]
    ) -> None:
        self._url = url
        self._renderer = renderer
        self._held = {
            (script.workflow_id, name): renderer.ids(held)
            for script in scripts
            for name, held in script.contexts.items()
        }

    async def serve(self, calls: Sequence[ScheduledCall]) -> list[FoundTokens]:
        """Raises :class:`BenchError`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_read=600)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                return [await self._call(session, call) for call in calls]
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise BenchError(f"the engine went away: {problem!r}") from None

    async def _call(self, session: aiohttp.ClientSession, scheduled: ScheduledCall) -> FoundTokens:
        script, call = scheduled.script, scheduled.script.calls[scheduled.step]
        held = self._held[script.workflow_id, call.context]
        held += self._renderer.ids(call.added)
        invocation = Invocation(script.workflow_id, call.agent, at_s=0.0, end=scheduled.last)
        body = {
            "input_ids": [*held, *self._renderer.ids(call.instruction)],
            "sampling_params": {
                "max_new_tokens": call.output_tokens,
                "temperature": 0,
                "ignore_eos": True,
                "custom_params": {PARAMS_KEY: invocation.to_params()},
            },
        }
        headers = {"Content-Type": "application/json"}
        async with session.post(
            f"{self._url}/generate", data=orjson.dumps(body), headers=headers
        ) as answer:
            if answer.status != 200:
                raise BenchError(f"the engine answered {answer.status}")
            content = orjson.loads(await answer.read())
        if call.keep_output:
            held += content["output_ids"]
        meta = content["meta_info"]
        tiers = meta.get("cached_tokens_details") or {"device": meta["cached_tokens"]}
        return FoundTokens(meta["prompt_tokens"], tiers.get("device", 0), tiers.get("host", 0))


def _row(
    policy: str, workload: str, engine: str, found: Sequence[FoundTokens], evicted: dict[str, int]
) -> dict[str, Any]:
    prompt = sum(each.prompt for each in found)
    return {
        "policy": policy,
        "workload": workload,
        "engine": engine,
        "calls": len(found),
        "prompt_tokens": prompt,
        "hit_rate": sum(each.device for each in found) / prompt,
        "host_hit_rate": sum(each.host for each in found) / prompt,
        "evicted_tokens": {reason: tokens for reason, tokens in evicted.items() if tokens},
    }
