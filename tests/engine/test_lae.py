"""Lifecycle-aware eviction inside the real engine. The pool holds four prompts of 1,000 tokens."""

import json

import pytest


@pytest.fixture(autouse=True)
def empty_cache(lae):
    lae.flush()


def evictions(folder):
    return [
        json.loads(line) for line in (folder / "evictions-rank0.jsonl").read_text().splitlines()
    ]


def test_retired_cache_goes_before_active(lae, lae_log, prompts):
    active = prompts.new(1000)
    first = lae.generate(active, "active")
    seen = len(evictions(lae_log))
    for i in range(8):
        lae.generate(prompts.new(1000), f"over-{i}", end=True)

    again = lae.generate(active, "active")

    assert again.cached_tokens == 992, "the oldest prompt stayed, eight newer ones went"
    assert again.output_ids == first.output_ids
    gone = evictions(lae_log)[seen:]
    assert gone and all(line["reason"] == "retired" for line in gone)
    assert all("active" not in line["workflows"] for line in gone)


def test_active_cache_goes_by_recency_when_nothing_is_retired(lae, lae_log, prompts):
    first = prompts.new(1000)
    lae.generate(first, "first")
    seen = len(evictions(lae_log))
    for i in range(5):
        lae.generate(prompts.new(1000), f"later-{i}")

    assert lae.generate(first, "first").cached_tokens == 0
    assert {line["reason"] for line in evictions(lae_log)[seen:]} == {"recency"}


def test_a_split_node_keeps_its_tags(lae, prompts):
    """Two workflows share the first half of a prompt; both halves stay while one of them lives."""
    head = prompts.new(512)
    one, two = head + prompts.new(480), head + prompts.new(480)
    lae.generate(one, "one")
    lae.generate(two, "two", end=True)
    for i in range(8):
        lae.generate(prompts.new(900), f"over-{i}", end=True)

    assert lae.generate(one, "one").cached_tokens == 976, "the split path of a live workflow stayed"
    assert lae.generate(two, "two").cached_tokens == 512, "the private half of the other went"


def test_a_shared_retired_prefix_outlives_private_leftovers(lae, prompts):
    shared = prompts.new(512)
    for i in range(3):
        lae.generate(shared + prompts.new(256), f"user-{i}", end=True)
    for i in range(3):
        lae.generate(prompts.new(800), f"over-{i}", end=True)

    assert lae.generate(shared + prompts.new(16), "new").cached_tokens == 512


def test_reasons_sum_to_what_the_engine_itself_counted(lae, prompts):
    def counted():
        by_reason = lae.metric("pbkv_evicted_tokens_total")
        host = lae.metric("pbkv_evicted_tokens_total", reason="host")
        return by_reason - host, lae.metric("sglang:evicted_tokens_total")

    before = counted()
    for i in range(6):
        lae.generate(prompts.new(1000), f"w{i}", end=i % 2 == 0)
    after = counted()

    assert after[0] - before[0] == after[1] - before[1] > 0


def test_token_counts_are_exported_by_agent(lae, prompts):
    agent = "Counter of tokens"
    prompt = prompts.new(640)
    lae.generate(prompt, "w", agent)
    lae.generate(prompt, "w", agent)

    assert lae.metric("pbkv_prompt_tokens_total", agent=agent) == 1280
    assert lae.metric("pbkv_cached_tokens_total", agent=agent, tier="device") == 624


@pytest.mark.parametrize(
    ("invocation", "word"),
    [
        ({"workflow": "w", "agnet": "A"}, "agnet"),
        ({"workflow": "x" * 600}, "limit"),
        ({"workflow": ""}, "non-empty"),
        ("w", "object"),
    ],
)
def test_a_malformed_invocation_is_answered_with_a_reason(lae, prompts, invocation, word):
    body = lae.body(prompts.new(32))
    body["sampling_params"]["custom_params"] = {"pbkv": invocation}

    answer = lae.http.post("/generate", json=body)

    assert answer.status_code == 400
    assert word in answer.json()["error"]["message"]


def test_an_unfinished_chunked_prefill_is_tagged_too(lae, prompts):
    """The prompt is prefilled in chunks of 512; its cache is the workflow's from the first on."""
    prompt = prompts.new(2000)
    first = lae.generate(prompt, "long")
    for i in range(4):
        lae.generate(prompts.new(1000), f"over-{i}", end=True)

    again = lae.generate(prompt, "long")
    assert again.cached_tokens == 1984
    assert again.output_ids == first.output_ids
