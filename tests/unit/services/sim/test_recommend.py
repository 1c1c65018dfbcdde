"""The search for settings, over made-up results and over a small simulation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli.recommend import app
from services.experiments.scope import Scope
from services.sim.grid import GridCell
from services.sim.recommend import CONCURRENCY_FACTORS, Recommendation, recommend


def _search(latency_s: Callable[[GridCell], float], slo_s: float | None = None) -> Recommendation:
    """A search in which ``latency_s`` tells what a cell would measure."""

    def simulate(cells: Sequence[GridCell]) -> Mapping[GridCell, dict[str, Any]]:
        return {
            cell: {
                "latency_mean_s": latency_s(cell),
                "latency_p95_s": float(cell.point.concurrency),
                "hit_rate": 0.5,
                "workflows": 100,
                # Forty at a time are as many as it can serve.
                "duration_s": 3600.0 / min(40, cell.point.concurrency),
            }
            for cell in cells
        }

    base = Scope().cell("hover", "lru")
    return recommend(base, (1, 2), simulate, objective="latency_mean_s", slo_s=slo_s)


def test_the_best_of_every_stage_is_kept_for_the_next() -> None:
    def latency_s(cell: GridCell) -> float:
        worse = 50.0 * (cell.variant.name != "pbkv+page/pbkv")
        worse += 10.0 * (cell.settings.lookahead_steps != 2) + 5.0 * (cell.settings.gamma != 0.9)
        return 100.0 + worse + 20.0 * (cell.host_ratio < 2.0) + cell.seed

    found = _search(latency_s)
    cell = found.chosen.cell

    assert cell.variant.name == "pbkv+page/pbkv"
    assert (cell.settings.lookahead_steps, cell.settings.gamma) == (2, 0.9)
    assert cell.host_ratio == 2.0
    assert found.chosen.gain_mean == pytest.approx((186 / 101 + 187 / 102) / 2, rel=0.01)
    assert found.environment() == {
        "PBKV_ENGINE_POLICY": "pbkv",
        "PBKV_ENGINE_QUEUE": "pbkv",
        "PBKV_ENGINE_EVICTION_UNIT": "page",
        "PBKV_ENGINE_LOOKAHEAD_STEPS": "2",
        "PBKV_ENGINE_GAMMA": "0.9",
    }


def test_what_is_hardly_better_is_not_worth_more_machinery() -> None:
    found = _search(lambda cell: 100.0 if cell.variant.policy == "lru" else 99.5)

    assert found.chosen.cell.variant.name == "lru/fcfs"
    assert found.chosen.cell.host_ratio == 0.0
    assert found.chosen.gain_mean == 1.0


def test_a_gain_that_seeds_contradict_is_chance() -> None:
    def latency_s(cell: GridCell) -> float:
        lucky = cell.variant.name == "session/lpm" and cell.seed == 1
        return 50.0 if lucky else 100.0

    assert _search(latency_s).chosen.cell.variant.name == "lru/fcfs"


def test_concurrency_is_the_least_that_saturates_or_the_most_within_a_bound() -> None:
    counts = [round(72 * factor) for factor in CONCURRENCY_FACTORS]

    # The first reaches nine tenths of the best throughput only.
    assert _search(lambda cell: 1.0).at_a_time.cell.point.concurrency == counts[1]
    assert _search(lambda cell: 1.0, slo_s=80.0).at_a_time.cell.point.concurrency == 72
    assert _search(lambda cell: 1.0, slo_s=1.0).at_a_time.cell.point.concurrency == counts[0]


def test_a_trace_is_sampled_and_answered(tmp_path: Path) -> None:
    trace, file = tmp_path / "trace.jsonl", tmp_path / "rows.json"
    lines = [
        {
            "timestamp": 1000 * n,
            "input_length": 512 * turns,
            "output_length": 8,
            "hash_ids": [100 * n + block for block in range(turns)],
        }
        for turns in range(1, 4)
        for n in range(12)
    ]
    trace.write_text("\n".join(json.dumps(line) for line in lines))
    words = ["--trace", str(trace), "--concurrency", "8", "--kv-tokens", "5000", "--seeds", "2"]
    done = CliRunner().invoke(app, [*words, "--gpu", "h200", "--jobs", "1", "--json", str(file)])

    assert done.exit_code == 0, done.output
    assert "expected gain:" in done.stdout
    content = json.loads(file.read_text())
    answer = content["environment"]["recommendation"]
    assert answer["gain_mean"] >= 1.0
    assert {row["stage"] for row in content["rows"]} >= {"policy and queue", "host tier"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give either --trace FILE or --workload NAME"),
        (["--workload", "hover", "--trace", "x.jsonl"], "give either"),
        (["--workload", "chess"], "unknown workload 'chess'"),
        (["--trace", "no/such.jsonl"], "there is no file no/such.jsonl"),
        (["--workload", "hover", "--gpu", "abacus"], "unknown gpu 'abacus'"),
        (["--workload", "hover", "--objective", "luck"], "unknown objective 'luck'"),
        (["--workload", "hover", "--kv-tokens", "64"], "needs"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, words)

    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
