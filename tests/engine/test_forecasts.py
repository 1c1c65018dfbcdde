"""Forecasts inside the real engine: learnt from its traffic, they decide what is evicted."""

import json

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
