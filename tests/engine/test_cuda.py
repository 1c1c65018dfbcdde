"""The same checks on a CUDA device: ``make gpu``. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from pbkv.settings import PolicySettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(scope="module")
def tiered(start_engine):
    policy = PolicySettings(policy="kvflow", agent_graph='{"A": ["A"], "Z": []}')
    with start_engine(device="cuda", policy=policy, host_ratio=4.0) as client:
        yield client


def test_replies_after_load_back_are_those_of_before(tiered, prompts):
    tiered.flush()
    asked = [prompts.new(1000) for _ in range(8)]
    cold = [tiered.generate(p, f"w{i}", max_new_tokens=8).output_ids for i, p in enumerate(asked)]
    again = [tiered.generate(p, f"w{i}", max_new_tokens=8) for i, p in enumerate(asked)]

    assert [reply.output_ids for reply in again] == cold
    assert sum(reply.host_tokens for reply in again) > 0


def test_a_prefetched_prompt_is_answered_alike(tiered, prompts):
    tiered.flush()
    prompt = prompts.new(1000)
    expected = tiered.generate(prompt, "waits", max_new_tokens=8).output_ids
    for i in range(4):
        tiered.generate(prompts.new(1000), f"over-{i}", end=True)
    tiered.generate(prompts.new(16), "busy", agent="Z", max_new_tokens=200, end=True)

    assert tiered.metric("pbkv_prefetched_tokens_total") > 0
    assert tiered.generate(prompt, "waits", max_new_tokens=8).output_ids == expected
