"""Random sequences on SGLang's real radix cache, both bookkeepings compared after every step."""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any

import numpy as np
import pytest

from pbkv.policy import EvictionReason, Tier
from pbkv.settings import PolicySettings
from tests.engine.tree_checks import check, check_empty
from tests.engine.tree_harness import Harness

WORKFLOWS = tuple(f"app:w{number}" for number in range(6))
AGENTS = ("Planner", "Coder", "Tester")
GRAPH = '{"Planner": ["Coder"], "Coder": ["Tester", "Planner"]}'
STEPS = 1_500
REMEMBERED = 12


class Driver:
    """Draws one operation after the other from a seed; the last ones are kept for the message."""

    def __init__(self, harness: Harness, seed: int) -> None:
        self.harness = harness
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.last: deque[str] = deque(maxlen=REMEMBERED)
        # Few distinct blocks, so that prompts share beginnings and diverge inside nodes.
        block = max(harness.page_size, 3)
        self.blocks = [[self.random.randrange(50) for _ in range(block)] for _ in range(4)]
        self.transcripts: dict[str, list[int]] = {}
        self.queue: list[Any] = []

    def step(self) -> None:
        weights = {
            self.start: 20,
            self.advance: 30,
            self.finish: 12,
            self.abort: 3,
            self.retract: 2,
            self.match: 5,
            self.evict: 5,
            self.evict_host: 3,
            self.poll: 14,
            self.prefetch: 3,
            self.decode: 6,
            self.join: 6,
            self.leave: 5,
            self.terminate: 4,
            self.pass_time: 2,
            self.forecast: 10,
            self.reset: 0.15,
        }
        operation = self.random.choices(list(weights), list(weights.values()))[0]
        self.last.append(operation.__name__)
        self.done[operation.__name__] += 1
        self.harness.now_s += 1.0
        operation()

    def prompt(self, workflow: str) -> list[int]:
        """The workflow's transcript or another one's, some of it, and something new."""
        draw = self.random
        known = self.transcripts.get(draw.choice((workflow, workflow, draw.choice(WORKFLOWS))), [])
        kept = known[: draw.randrange(len(known) + 1)] if draw.random() < 0.4 else known
        fresh = [t for _ in range(draw.randint(1, 4)) for t in draw.choice(self.blocks)]
        tail = [draw.randrange(50) for _ in range(draw.randrange(4))]
        limit = self.harness.kv_tokens // 4
        prompt = (kept + fresh + tail)[-limit:] if draw.random() < 0.1 else (kept + fresh + tail)
        self.transcripts[workflow] = prompt[:limit]
        return self.transcripts[workflow]

    def start(self) -> None:
        draw, harness = self.random, self.harness
        if len(harness.running) >= 5:
            self.finish()
        workflow = draw.choice(WORKFLOWS)
        invocation = None
        if draw.random() < 0.9:
            invocation = harness.invocation(workflow, draw.choice(AGENTS))
        harness.start(
            self.prompt(workflow), draw.randint(5, 80), invocation, end=draw.random() < 0.1
        )

    def advance(self) -> None:
        if self.harness.running:
            self.harness.advance(
                self.random.choice(self.harness.running), self.random.randint(5, 60)
            )

    def finish(self) -> None:
        ready = [
            req
            for req in self.harness.running
            if req.extend_end >= len(req.origin_input_ids) and len(req.output_ids)
        ]
        if ready:
            self.harness.finish(self.random.choice(ready))

    def abort(self) -> None:
        if self.harness.running:
            self.harness.abort(
                self.random.choice(self.harness.running), checkpoint=self.random.random() < 0.5
            )

    def retract(self) -> None:
        if self.harness.running:
            self.harness.retract(self.random.choice(self.harness.running))

    def match(self) -> None:
        self.harness.match(self.prompt(self.random.choice(WORKFLOWS)))

    def evict(self) -> None:
        self.harness.evict(self.random.randint(1, 120))

    def evict_host(self) -> None:
        if self.harness.host_ratio:
            self.harness.evict_host(self.random.randint(1, 80))

    def poll(self) -> None:
        self.harness.poll()

    def prefetch(self) -> None:
        self.harness.prefetch(self.random.randrange(100))

    def decode(self) -> None:
        self.harness.decode(self.random.choice((16, 64, 256)))

    def join(self) -> None:
        """A request waits: its path is announced to the policy."""
        workflow = self.random.choice(WORKFLOWS)
        invocation = self.harness.invocation(workflow, self.random.choice(AGENTS))
        req = self.harness.request(self.prompt(workflow), invocation)
        self.harness.binding.waiting.joined(req)
        self.queue.append(req)

    def leave(self) -> None:
        """Admitted or aborted: its announcement is taken back from what its path is by now."""
        if self.queue:
            self.queue.remove(self.random.choice(self.queue))
            self.harness.binding.waiting.keep(self.queue)

    def terminate(self) -> None:
        self.harness.terminate(self.random.choice(WORKFLOWS), self.random.randrange(4))

    def pass_time(self) -> None:
        self.harness.now_s += self.random.choice((10.0, 700.0))
        self.harness.expire()

    def forecast(self) -> None:
        table = np.array([[self.random.random() for _ in range(len(AGENTS) + 1)] for _ in range(3)])
        table /= table.sum(axis=1, keepdims=True)
        self.harness.forecast(self.random.choice(WORKFLOWS), AGENTS, table)

    def reset(self) -> None:
        self.queue.clear()
        self.harness.binding.waiting.keep(self.queue)
        self.harness.reset()
        check_empty(self.harness)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "page_size", "host_ratio", "access_model", "unit"),
    [
        ("lae", 1, 2.0, "direct", "node"),
        ("lae", 16, 0.0, "direct", "page"),
        ("kvflow", 16, 2.0, "direct", "node"),
        ("he", 16, 1.5, "learned", "node"),
        ("he", 1, 2.0, "direct", "page"),
        ("pbkv", 16, 2.0, "direct", "page"),
        ("pbkv-aggressive", 1, 2.0, "direct", "page"),
    ],
)
def test_tree_and_policy_agree_after_every_step(
    policy, page_size, host_ratio, access_model, unit, monkeypatch
):
    settings = PolicySettings(
        policy=policy,
        max_workflows=4,
        max_retired_workflows=2,
        access_model=access_model,
        eviction_unit=unit,
        agent_graph=GRAPH,
    )
    harness = Harness(settings, 40 * max(page_size, 6), page_size, host_ratio)
    driver = Driver(harness, seed=page_size + len(policy))
    kept_tokens, kept = harness.policy.kept_tokens, []
    monkeypatch.setattr(
        harness.policy,
        "kept_tokens",
        lambda *args, **sizes: kept.append(kept_tokens(*args, **sizes)) or kept[-1],
    )
    waited = 0
    try:
        for number in range(STEPS):
            try:
                driver.step()
                check(harness)
                waited += any(view.waiting for view in harness.binding.views)
            except Exception as problem:
                steps = ", ".join(driver.last)
                raise AssertionError(f"step {number} after {steps}: {problem!r}") from problem
        driver.reset()
    finally:
        harness.close()

    assert min(driver.done.values()) > 0
    assert any(kept) == (unit == "page")
    evicted = harness.recorder.by_reason
    assert evicted[EvictionReason.RECENCY]
    assert bool(evicted[EvictionReason.RETIRED]) == (policy != "kvflow")
    assert bool(harness.recorder.prefetched_tokens) == hasattr(harness.policy, "prefetcher")
    assert bool(harness.displaced_tokens) == (policy == "pbkv-aggressive")
    assert bool(waited) == harness.policy.uses_forecasts
    assert bool(evicted[EvictionReason.SCORE]) == (policy != "lae")
    assert bool(harness.recorder.by_tier[Tier.HOST]) == bool(host_ratio)
    assert sum(evicted.values()) == sum(harness.recorder.by_tier.values())
