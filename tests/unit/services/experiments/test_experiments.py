"""``pbkv experiments paper`` on few workflows, from its options to its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from services.cli.experiments import app
from services.experiments.catalogue import EXPERIMENTS, cells_of, choose
from services.experiments.claim import Claim, verdict
from services.experiments.ledger import RowLedger
from services.experiments.measured import Measured, Sample
from services.experiments.paper import accuracies, table2, table4_us
from services.experiments.scope import Scope

POLICY_ROWS = [
    {"op": op, "implementation": "pbkv", "nodes": nodes, "mean_us": mean_us, "p99_us": 9.0}
    for op, nodes, mean_us in (("evict", 1000, 99.0), ("evict", 50_000, 500.0), ("score", 9, 1.0))
]


def _paper(out: Path, *words: str) -> Result:
    sizes = ("--workflows", "8", "--seeds", "2", "--sweep-seeds", "2", "--jobs", "1")
    return CliRunner().invoke(app, ["paper", "--out", str(out), *sizes, *words])


def test_a_report_has_every_chosen_section_with_a_verdict(tmp_path: Path) -> None:
    bench = tmp_path / "bench.json"
    bench.write_text(json.dumps({"rows": POLICY_ROWS}))
    names = "table4,figure5b,figure6,figure10,regimes"
    done = _paper(tmp_path, "--only", names, "--policy-bench", str(bench))

    assert done.exit_code == 0, done.output
    markdown = (tmp_path / "paper.md").read_text()
    for title in (
        "Table 4",
        "Figure 5b",
        "Figure 6",
        "Figure 10",
        "Other regimes",
        "Operating points",
    ):
        assert f"## {title}" in markdown
    assert "Disagrees: EvictDecision takes 440.00 us in the mean. Here: 500.00 us" in markdown
    assert "Agrees: ScoreUpdate" in markdown
    page = (tmp_path / "paper.html").read_text()
    assert page.count("<svg") == 3


def test_finished_rows_are_not_simulated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.json"
    assert _paper(tmp_path, "--only", "figure6", "--json", str(rows)).exit_code == 0
    first = json.loads(rows.read_text())["rows"]
    with (tmp_path / "rows.jsonl").open("ab") as file:
        file.write(b'{"key": "cut o')

    def refuse_to(cell: object) -> dict[str, object]:
        raise AssertionError("simulated again")

    monkeypatch.setattr("services.sim.grid.run_cell", refuse_to)
    done = _paper(tmp_path, "--only", "figure6", "--json", str(rows))

    assert done.exit_code == 0, done.output
    assert json.loads(rows.read_text())["rows"] == first


def test_a_ledger_tells_other_cells_apart(tmp_path: Path) -> None:
    ledger = RowLedger(tmp_path / "rows.jsonl")
    ledger.add(("cell", 1), {"hit_rate": 0.5})
    ledger.close()
    again = RowLedger(tmp_path / "rows.jsonl")

    assert again.get(("cell", 1)) == {"hit_rate": 0.5}
    assert again.get(("cell", 2)) is None
    again.close()


def test_every_section_finds_the_cells_that_it_asked_for() -> None:
    scope = Scope(seeds=2, sweep_seeds=2, workflows=8)
    row = {
        **dict.fromkeys(("hit_rate", "latency_mean_s", "latency_p95_s", "latency_p99_s"), 0.5),
        **dict.fromkeys(("ttft_mean_s", "ttft_first_p95_s", "duration_s", "last_start_s"), 1.0),
        **dict.fromkeys(("first_eviction_s", "first_end_s"), None),
        "timeline_prompt_tokens": [10],
        "timeline_device_tokens": [5],
    }
    for name, experiment in EXPERIMENTS.items():
        rows = dict.fromkeys(cells_of([name], scope), row)
        assert experiment.section(scope, Measured(rows)).blocks, name


def test_cells_of_two_experiments_are_simulated_once() -> None:
    scope = Scope(seeds=1, sweep_seeds=1)
    apart = sum(len(cells_of([name], scope)) for name in EXPERIMENTS)

    assert len(cells_of(choose("all"), scope)) < apart


def test_the_papers_numbers_are_whole() -> None:
    blocks = table2()

    assert len(blocks) == 6
    assert sum(len(policies) for policies in blocks.values()) == 22
    assert blocks["qwen3-32b", "hover"]["pbkv"]["hit_rate"].mean == 69.10
    assert table4_us()["ScoreUpdate"] == (1.53, 2.69)
    assert list(accuracies()) == ["graphsage", "rgcn", "markov n=3"]


def test_differences_are_taken_seed_by_seed() -> None:
    mine, theirs = Sample((10.0, 20.0, 30.0)), Sample((9.0, 19.0, 29.0))

    assert mine.std == pytest.approx(10.0)
    assert mine.minus(theirs).mean == pytest.approx(1.0)
    assert mine.minus(theirs).error == pytest.approx(0.0)


def test_a_verdict_counts_what_agrees() -> None:
    claims = [Claim("a", True, "1"), Claim("b", False, "2")]

    assert verdict(claims)[0].text == "Agrees with the paper in 1 of 2 points."
    assert verdict(claims)[2].text == "Disagrees: b. Here: 2."
    assert "in all" in verdict(claims[:1])[0].text
    assert verdict(claims[1:])[0].text == "Disagrees with the paper."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "figure99"], "unknown experiment 'figure99'; choose from: all, table1"),
        (["--only", "figure6", "--data", "no/such"], "no/such"),
        (["--only", "table4", "--policy-bench", "no.json"], "no.json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, words: list[str], message: str
) -> None:
    done = _paper(tmp_path, *words)

    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_file_that_is_no_bench_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"rows": [{"policy": "lru"}]}')
    done = _paper(tmp_path, "--only", "table4", "--policy-bench", str(other))

    assert done.exit_code == 2, done.output
    assert "is not a file of pbkv bench policy" in done.stderr
