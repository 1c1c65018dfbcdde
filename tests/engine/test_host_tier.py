"""HiCache with the plug-in: demotion to the host, load-back, tags that survive both."""

import json

import pytest

from pbkv.settings import PolicySettings


@pytest.fixture(scope="module", params=["lru", "lae"])
def tiered(request, start_engine, tmp_path_factory):
    """A device pool of four prompts and a host pool of twelve."""
    folder = tmp_path_factory.mktemp(f"tiered-{request.param}")
    policy = PolicySettings(policy=request.param, eviction_log_dir=str(folder))
    with start_engine(policy=policy, host_ratio=3.0) as client:
        client.policy = request.param
        client.log = folder / "evictions-rank0.jsonl"
        yield client


def test_replies_after_load_back_are_those_of_stock(tiered, stock, prompts):
    tiered.flush()
    asked = [prompts.new(1000) for _ in range(8)]
    expected = [stock.generate(prompt, max_new_tokens=8).output_ids for prompt in asked]
    cold = [tiered.generate(p, f"w{i}", max_new_tokens=8) for i, p in enumerate(asked)]
    again = [tiered.generate(p, f"w{i}", max_new_tokens=8) for i, p in enumerate(asked)]

    assert [reply.output_ids for reply in cold] == expected
    assert [reply.output_ids for reply in again] == expected
    assert sum(reply.host_tokens for reply in again) >= 4 * 992, "the host tier was really used"
    assert all(reply.device_tokens + reply.host_tokens == 992 for reply in again)


def test_tags_survive_demotion_and_load_back(tiered, prompts):
    if tiered.policy == "lru":
        pytest.skip("recency alone does not show tags")
    tiered.flush()
    kept = prompts.new(1000)
    tiered.generate(kept, "kept")
    for i in range(5):
        tiered.generate(prompts.new(1000), f"live-{i}")
    assert tiered.generate(kept, "kept").host_tokens == 992, "it had been demoted"
    for i in range(6):
        tiered.generate(prompts.new(1000), f"over-{i}", end=True)

    assert tiered.generate(kept, "kept").device_tokens == 992, (
        "active again on the device, it stays"
    )


def test_host_evictions_are_counted_apart_and_spare_active_cache(tiered, prompts):
    tiered.flush()
    kept = prompts.new(1000)
    tiered.generate(kept, "kept")
    seen = len(tiered.log.read_text().splitlines())
    for i in range(16):
        tiered.generate(prompts.new(1000), f"over-{i}", end=True)

    gone = [json.loads(line) for line in tiered.log.read_text().splitlines()[seen:]]
    host = [line for line in gone if line["tier"] == "host"]
    assert host and {line["reason"] for line in host} == {"host"}
    found = tiered.generate(kept, "kept")
    if tiered.policy == "lae":
        assert found.cached_tokens == 992, "retired cache leaves the host first too"
    else:
        assert found.cached_tokens == 0
