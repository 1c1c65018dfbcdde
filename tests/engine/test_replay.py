"""``pbkv replay`` end to end: the simulator against SGLang as it serves, not only its tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.replay import app

POLICIES = ("lru", "pbkv")
KV_TOKENS = 2368
WITHIN = 0.02
"""Difference of hit rates, of all prompt tokens."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], dict]:
    """By workload, policy and engine; both engines start together and serve all workloads."""
    path: Path = tmp_path_factory.mktemp("replay") / "rows.json"
    words = ["--policy", ",".join(POLICIES), "--host-ratio", "0.5", "--kv-tokens", str(KV_TOKENS)]
    done = CliRunner().invoke(app, [*words, "--workflows", "4", "--json", str(path)])
    assert done.exit_code == 0, done.output
    found = json.loads(path.read_text())["rows"]
    return {(row["workload"], row["policy"], row["engine"]): row for row in found}


@pytest.mark.parametrize("workload", ["hover", "swebench", "financebench"])
@pytest.mark.parametrize("policy", POLICIES)
def test_hits_on_both_tiers_are_those_of_the_simulator(rows, workload, policy):
    sim, real = rows[workload, policy, "sim"], rows[workload, policy, "sglang"]

    assert real["calls"] == sim["calls"]
    assert real["prompt_tokens"] == sim["prompt_tokens"]
    assert real["hit_rate"] == pytest.approx(sim["hit_rate"], abs=WITHIN)
    assert real["host_hit_rate"] == pytest.approx(sim["host_hit_rate"], abs=WITHIN)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_pools_are_too_small_so_that_there_is_something_to_compare(rows, policy):
    for workload in ("hover", "swebench", "financebench"):
        for engine in ("sim", "sglang"):
            row = rows[workload, policy, engine]
            assert sum(row["evicted_tokens"].values()) > KV_TOKENS // 2
            assert row["hit_rate"] > 0.1


@pytest.mark.parametrize("workload", ["hover", "swebench", "financebench"])
def test_lru_evicts_the_same_tokens(rows, workload):
    sim, real = rows[workload, "lru", "sim"], rows[workload, "lru", "sglang"]

    assert real["evicted_tokens"]["recency"] == sim["evicted_tokens"]["recency"]
    # Copies to the host take their time in the engine.
    assert real["evicted_tokens"]["host"] == pytest.approx(sim["evicted_tokens"]["host"], rel=0.2)
