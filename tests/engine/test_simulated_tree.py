"""The simulator's tree against SGLang's real one: the same calls find the same cache.

One call runs at a time, in an order fixed beforehand, so that nothing depends on time. What both
find on the device and on the host is compared call by call, and what they evict in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from pbkv.events import EventKind, WorkflowEvent
from pbkv.invocation import Invocation
from pbkv.settings import PolicySettings
from pbkv.sim import EngineLimits, Simulation, gpu_costs
from pbkv.sim.forecasting import ScriptPredictor
from pbkv.sim.sequence import FoundTokens, ScheduledCall, interleaved, simulate_sequence
from pbkv.workload import ScriptedWorkflow, make_workflows
from services.sim.graph import default_graph
from tests.engine.tree_harness import Harness

PAGE = 4
KV_TOKENS = 640
AT_A_TIME = 6
ACCURACY = (0.9, 0.8, 0.7)
WORKFLOWS = {"hover": 10, "swebench": 6, "financebench": 9}
SCALES = {"hover": 0.1, "swebench": 0.012, "financebench": 0.12}


Side = tuple[list[FoundTokens], dict[str, int]]
"""What every call found, and the tokens evicted by reason."""


def _simulation(settings: PolicySettings, host_ratio: float) -> Simulation:
    return Simulation(
        policy=settings.policy,
        queue="fcfs",
        concurrency=1,
        limits=EngineLimits(kv_tokens=KV_TOKENS, host_ratio=host_ratio, page_size=PAGE),
        costs=gpu_costs("qwen3-32b", "a6000"),
        settings=settings,
        accuracy=ACCURACY,
    )


class _Texts:
    """Segments as random tokens, and what each context holds."""

    def __init__(self, scripts: list[ScriptedWorkflow]) -> None:
        self._held = {
            (script.workflow_id, name): self._tokens(held)
            for script in scripts
            for name, held in script.contexts.items()
        }

    @staticmethod
    def _tokens(segments: Any) -> list[int]:
        return [
            token
            for segment in segments
            for token in np.random.default_rng(
                np.frombuffer(segment.seed.encode().ljust(64, b"."), dtype=np.uint32)
            ).integers(10, 1_000_000, segment.num_tokens)
        ]

    def prompt(self, script: ScriptedWorkflow, step: int) -> list[int]:
        call = script.calls[step]
        held = self._held[script.workflow_id, call.context]
        held += self._tokens(call.added)
        return [*held, *self._tokens(call.instruction)]

    def replied(self, script: ScriptedWorkflow, step: int, reply: list[int]) -> None:
        call = script.calls[step]
        if call.keep_output:
            self._held[script.workflow_id, call.context] += reply


class _Replay(Harness):
    """Serves whole calls, allocating as the scheduler does: decode steps in a way of their own."""

    def serve(
        self,
        prompt: list[int],
        output_tokens: int,
        invocation: Invocation,
        forecast: Callable[[], None],
    ) -> tuple[FoundTokens, list[int]]:
        req = self._request(prompt, invocation, end=False)
        req.init_next_round_input(self.cache)
        device_tokens = req.prefix_len
        if req.host_hit_length:
            self._load_back(req)
        req.lock = self.cache.lock(req.last_node)
        self._extend(req, len(prompt))
        # As in the engine, the forecast of a call comes while its prompt is computed.
        forecast()
        self.running.append(req)
        for _ in range(output_tokens - 1):
            self.advance(req, len(prompt))
            self.poll()
        found = FoundTokens(len(prompt), device_tokens, req.host_loaded_length or 0)
        self.finish(req)
        self.poll()
        return found, list(req.output_ids)

    def _extend(self, req: Any, target: int) -> None:
        if not req.kv.holds_kv:
            super()._extend(req, target)
            return
        from sglang.srt.mem_cache.allocation import alloc_paged_token_slots_decode

        pool = self.local.request_pool
        length = torch.tensor([target], dtype=torch.int64)
        last = pool.req_to_token[req.kv.req_pool_idx, target - 2 : target - 1].to(torch.int64)
        slots = alloc_paged_token_slots_decode(self.cache, length, length, last)
        pool.write((req.kv.req_pool_idx, slice(target - 1, target)), slots.to(torch.int32))
        req.extend_end = target
        req.kv.kv_allocated_len = req.kv.kv_committed_len = target


def _real(
    settings: PolicySettings,
    scripts: list[ScriptedWorkflow],
    calls: list[ScheduledCall],
    host_ratio: float,
) -> Side:
    harness = _Replay(settings, kv_tokens=KV_TOKENS, page_size=PAGE, host_ratio=host_ratio)
    predictor, texts = ScriptPredictor(scripts, steps=3, accuracy=ACCURACY), _Texts(scripts)
    found = []
    for number, scheduled in enumerate(calls):
        script, step = scheduled.script, scheduled.step
        call = script.calls[step]
        harness.now_s = float(number)
        invocation = Invocation(script.workflow_id, call.agent, at_s=float(number), step=step + 1)
        harness.policy.on_event(WorkflowEvent.invoke(invocation))
        rows = predictor.of_workflow(script.workflow_id, step + 1)
        prompt = texts.prompt(script, step)
        of_call, reply = harness.serve(
            prompt,
            call.output_tokens,
            invocation,
            partial(harness.forecast, script.workflow_id, predictor.agents, rows),
        )
        # The last token of a reply has no cache yet, and is part of the next prompt all the same.
        texts.replied(script, step, [*reply, 2][: call.output_tokens])
        found.append(of_call)
        if scheduled.last:
            harness.policy.on_event(
                WorkflowEvent(EventKind.TERMINATE, script.workflow_id, float(number))
            )
    evicted = {str(reason): tokens for reason, tokens in harness.recorder.by_reason.items()}
    harness.close()
    return found, evicted


def _compare(workload: str, policy: str, host_ratio: float) -> tuple[Side, Side]:
    scripts = make_workflows(workload, WORKFLOWS[workload], seed=1, scale=SCALES[workload])
    settings = PolicySettings(
        policy=policy, agent_graph=default_graph(scripts), queue_knowledge=False
    )
    calls = list(interleaved(scripts, at_a_time=AT_A_TIME))
    simulated = simulate_sequence(_simulation(settings, host_ratio), scripts, calls)
    return simulated, _real(settings, scripts, calls, host_ratio)


@pytest.mark.parametrize("policy", ["lru", "kvflow", "lae", "he"])
@pytest.mark.parametrize("workload", ["hover", "swebench", "financebench"])
def test_every_call_finds_what_it_finds_in_the_real_tree(workload: str, policy: str) -> None:
    (simulated, evicted), (real, really_evicted) = _compare(workload, policy, 0.0)

    assert simulated == real
    assert {why: tokens for why, tokens in evicted.items() if tokens} == really_evicted


@pytest.mark.parametrize("host_ratio", [0.5, 1.0])
@pytest.mark.parametrize("policy", ["lru", "he"])
@pytest.mark.parametrize("workload", ["hover", "swebench", "financebench"])
def test_with_a_host_tier_hit_rates_agree(workload: str, policy: str, host_ratio: float) -> None:
    """Not call by call: the engine copies to the host behind its back, the simulator at once.

    A host tier smaller than the device's is full of what the device holds as well: copies fail.
    """
    (simulated, evicted), (real, really_evicted) = _compare(workload, policy, host_ratio)
    prompts = sum(found.prompt for found in real)

    for tier in ("device", "host"):
        rates = [sum(getattr(f, tier) for f in found) / prompts for found in (simulated, real)]
        assert rates[0] == pytest.approx(rates[1], abs=0.02)
    within = 0.1 if host_ratio >= 1.0 else 0.3
    for why, tokens in really_evicted.items():
        assert evicted[why] == pytest.approx(tokens, rel=within)
    assert really_evicted["host"] > 0
