"""Forecasts inside the real engine: learnt from its traffic, they decide what is evicted."""

import json
import random

import pytest

from pbkv.settings import PolicySettings
from tests.engine.client import Prompts
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def he_log(tmp_path_factory):
    return tmp_path_factory.mktemp("he")


@pytest.fixture(scope="module")
def he(start_engine, he_log):
    """A pool of four prompts of 1,000 tokens."""
    policy = PolicySettings(policy="he", eviction_log_dir=str(he_log))
    with start_engine(policy=policy) as client:
        yield client


def evictions(folder):
    return [
        json.loads(line) for line in (folder / "evictions-rank0.jsonl").read_text().splitlines()
    ]


def applied(client):
    return client.metric("pbkv_forecasts_total", outcome="applied")


def call(client, prompt, workflow, agent, **fields):
    """One call, and the forecast after it."""
    before = applied(client)
    reply = client.generate(prompt, workflow, agent, **fields)
    if not fields.get("end"):
        wait_until(lambda: applied(client) > before)
    return reply


@pytest.fixture(scope="module")
def trained(he):
    """Traffic in which Planner and Coder take turns: Planner, Coder, Planner, the end."""
    prompts = Prompts(7001)
    for i in range(12):
        call(he, prompts.new(32), f"train-{i}", "Planner")
        call(he, prompts.new(32), f"train-{i}", "Coder")
        call(he, prompts.new(32), f"train-{i}", "Planner", end=True)
    return he


def test_the_agent_that_comes_next_keeps_its_cache(trained, he_log, prompts):
    """The planner's prompt is older than the coder's; the planner is next, so the coder's goes."""
    trained.flush()
    planner, coder = prompts.new(900), prompts.new(900)
    call(trained, planner, "w", "Planner")
    call(trained, coder, "w", "Coder")
    seen = len(evictions(he_log))
    for i in range(3):
        call(trained, prompts.new(900), f"other-{i}", "Planner")

    gone = evictions(he_log)[seen:]
    assert gone and gone[0]["workflows"] == ["w"]
    assert {line["reason"] for line in gone} == {"score"}
    assert trained.generate(coder, "probe", "Probe", end=True).cached_tokens < 896
    assert call(trained, planner, "w", "Planner").cached_tokens == 896


def test_retired_cache_still_goes_first(trained, he_log, prompts):
    trained.flush()
    kept = prompts.new(900)
    call(trained, kept, "kept", "Planner")
    seen = len(evictions(he_log))
    for i in range(6):
        trained.generate(prompts.new(900), f"over-{i}", "Coder", end=True)

    assert trained.generate(kept, "kept", "Planner").cached_tokens == 896
    assert {line["reason"] for line in evictions(he_log)[seen:]} == {"retired"}


def test_live_accuracy_and_time_are_exported(trained, prompts):
    for i in range(3):
        call(trained, prompts.new(32), f"more-{i}", "Planner")
        call(trained, prompts.new(32), f"more-{i}", "Coder")
        call(trained, prompts.new(32), f"more-{i}", "Planner", end=True)

    wait_until(lambda: trained.metric("pbkv_forecast_accuracy", k="1") > 0.5)
    assert trained.metric("pbkv_forecast_accuracy", k="2") > 0.5
    assert trained.metric("pbkv_policy_seconds_count", op="predict") > 0
    assert trained.metric("pbkv_forecasts_total", outcome="failed") == 0
    assert trained.metric("pbkv_hidden_states_total") == 0, "nobody asked for them"


def test_without_forecasts_every_eviction_is_that_of_lae(lae, lae_log, start_engine, tmp_path):
    """The same trace on both, with calls that end, come back, share a prefix and exceed the pool.

    Everything but the numbers of the nodes, which an engine counts from its start, is compared.
    """
    policy = PolicySettings(policy="he", predictor="none", eviction_log_dir=str(tmp_path))
    with start_engine(policy=policy, chunked_prefill_size=512) as without:
        lae.flush()
        seen = len(evictions(lae_log))
        replies = [serve_trace(client) for client in (lae, without)]
    logs = [evictions(lae_log)[seen:], evictions(tmp_path)]
    for line in logs[0] + logs[1]:
        del line["node"]

    assert logs[0] == logs[1]
    assert {line["reason"] for line in logs[0]} == {"retired", "recency"}
    assert replies[0] == replies[1]


def serve_trace(client):
    rng, prompts = random.Random(11), Prompts(7002)
    shared = prompts.new(160)
    private = {w: shared + prompts.new(900) for w in range(8)}
    cached = []
    for step in range(40):
        workflow = rng.randrange(8)
        length = rng.randrange(200, 1000)
        reply = client.generate(
            private[workflow][:length],
            f"trace-{workflow}",
            rng.choice("ABC"),
            end=step % 6 == 5,
        )
        cached.append(reply.cached_tokens)
    return cached
