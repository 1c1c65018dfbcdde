"""Prefetch in the real engine, driven by KVFlow's static graph: A is always followed by A."""

import pytest

from pbkv.settings import PolicySettings
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def engine(start_engine):
    policy = PolicySettings(policy="kvflow", agent_graph='{"A": ["A"], "Z": []}')
    with start_engine(policy=policy, host_ratio=4.0) as client:
        yield client


def decode_for_a_while(engine, prompts):
    """Pure-decode steps, behind which prefetches hide; of an agent after which nothing comes."""
    engine.generate(prompts.new(16), "busy", agent="Z", max_new_tokens=60, end=True)


def test_a_node_of_the_next_agent_is_loaded_into_retired_space(engine, stock, prompts):
    engine.flush()
    prompt = prompts.new(1000)
    expected = stock.generate(prompt, max_new_tokens=8).output_ids
    assert engine.generate(prompt, "waits", max_new_tokens=8).output_ids == expected
    before = engine.metric("pbkv_prefetched_tokens_total")
    for i in range(4):
        engine.generate(prompts.new(1000), f"over-{i}", agent="A", end=i < 3)

    decode_for_a_while(engine, prompts)

    assert engine.metric("pbkv_prefetched_tokens_total") >= before + 992
    again = engine.generate(prompt, "waits", max_new_tokens=8)
    assert again.output_ids == expected
    assert (again.device_tokens, again.host_tokens) == (992, 0)
    wait_until(lambda: engine.metric("pbkv_prefetch_used_tokens_total") >= 992)


def test_active_cache_is_never_displaced(engine, prompts):
    """The device is full of active cache: nothing is loaded, whatever waits on the host."""
    engine.flush()
    for i in range(8):
        engine.generate(prompts.new(1000), f"live-{i}")
    before = engine.metric("pbkv_prefetched_tokens_total")
    evicted = engine.metric("sglang:evicted_tokens_total")

    engine.generate(prompts.new(16), "live-7", agent="A", max_new_tokens=60)

    # The reply itself takes a few pages; a prefetch would have taken a prompt.
    assert engine.metric("pbkv_prefetched_tokens_total") == before
    assert engine.metric("sglang:evicted_tokens_total") - evicted <= 992


def test_what_nobody_reads_is_counted_as_wasted(engine, prompts):
    engine.flush()
    engine.generate(prompts.new(1000), "waits")
    for i in range(4):
        engine.generate(prompts.new(1000), f"over-{i}", end=True)
    decode_for_a_while(engine, prompts)
    before = engine.metric("pbkv_prefetch_wasted_tokens_total")

    engine.generate(prompts.new(2900), "big", agent="Z", end=True)
    engine.generate(prompts.new(2900), "bigger", agent="Z", end=True)

    assert engine.metric("pbkv_prefetch_wasted_tokens_total") > before


def fill_so_that_one_prompt_is_on_the_host(engine, prompts):
    """Replies of one token come from the prefill, so that no decode step loads anything back."""
    engine.flush()
    engine.generate(prompts.new(1000), "waits", max_new_tokens=1)
    for i in range(4):
        engine.generate(prompts.new(1000), f"over-{i}", max_new_tokens=1, end=i < 3)


def test_space_that_the_running_request_will_need_is_left_alone(engine, prompts):
    """The same cache twice. Of a request that may still write 2,900 tokens nothing is left over;
    of one that may write 60, a prompt's worth is."""
    fill_so_that_one_prompt_is_on_the_host(engine, prompts)
    before = engine.metric("pbkv_prefetched_tokens_total")
    long = engine.body(prompts.new(16), "long", agent="Z", max_new_tokens=2900, end=True)
    with engine.http.stream("POST", "/generate", json=long | {"stream": True}) as answer:
        tokens = (line for line in answer.iter_lines() if line.startswith("data: {"))
        for _, _ in zip(range(40), tokens, strict=False):
            pass
        prefetched = engine.metric("pbkv_prefetched_tokens_total")
    assert prefetched == before, "decode steps went by, and none was used"

    wait_until(lambda: engine.metric("sglang:num_running_reqs") == 0)
    decode_for_a_while(engine, prompts)

    assert engine.metric("pbkv_prefetched_tokens_total") >= before + 992
