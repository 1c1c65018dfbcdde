"""What only a CUDA device can go wrong in: copies that are still on the way.

Everything else about an engine on CUDA is in the other files of this folder, whose tests run on
every device.
"""

from __future__ import annotations

import os

import pytest

from pbkv.settings import PolicySettings

pytestmark = pytest.mark.gpu

DELAY_CYCLES = 1_000_000_000
"""How long every layer of a copy from the host is held up: about half a second, which is more than
the decode steps that a prefetch hides behind take."""


@pytest.fixture(scope="module")
def slow_copies(start_engine, device):
    """A device pool of four prompts, and copies from the host that take many decode steps."""
    if device != "cuda":
        pytest.skip("on a CPU a copy is complete when it was started")
    policy = PolicySettings(policy="kvflow", agent_graph='{"A": ["A"], "Z": []}')
    environ = os.environ | {"SGLANG_TEST_HICACHE_H2D_DELAY_CYCLES": str(DELAY_CYCLES)}
    with start_engine(policy=policy, host_ratio=4.0, environ=environ) as client:
        yield client


def test_a_prefetched_prompt_is_not_read_before_its_copy_arrived(slow_copies, stock, prompts):
    """A longer prompt computes on from a node whose bytes are on the way.

    Only the first prefetch of an engine can be so large: it tells how slow copies are.
    """
    slow_copies.flush()
    prompt = prompts.new(1000)
    longer = prompt + prompts.new(200)
    expected = stock.generate(longer, max_new_tokens=8).output_ids
    slow_copies.generate(prompt, "waits", max_new_tokens=8)
    for i in range(4):
        slow_copies.generate(prompts.new(1000), f"over-{i}", end=i < 3)
    slow_copies.generate(prompts.new(16), "busy", agent="Z", max_new_tokens=30, end=True)

    assert slow_copies.metric("pbkv_prefetched_tokens_total") >= 992
    reply = slow_copies.generate(longer, "waits", max_new_tokens=8)
    assert reply.output_ids == expected
    assert reply.device_tokens >= 992


def test_replies_after_a_slow_load_back_are_those_of_stock(slow_copies, stock, prompts):
    slow_copies.flush()
    asked = [prompts.new(1000) for _ in range(6)]
    expected = [stock.generate(prompt, max_new_tokens=8).output_ids for prompt in asked]
    for i, prompt in enumerate(asked):
        slow_copies.generate(prompt, f"w{i}", max_new_tokens=8)
    again = [slow_copies.generate(p, f"w{i}", max_new_tokens=8) for i, p in enumerate(asked)]

    assert [reply.output_ids for reply in again] == expected
    assert sum(reply.host_tokens for reply in again) > 0
