"""``pbkv simulate`` from its options to its rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from services.cli.simulate import app

ROW_KEYS = {
    "workload",
    "model",
    "gpu",
    "policy",
    "queue",
    "kv_scale",
    "seed",
    "concurrency",
    "hit_rate",
    "latency_mean_s",
    "latency_p95_s",
    "ttft_mean_s",
    "ttft_first_p95_s",
    "ttft_first_p99_s",
    "first_wait_max_s",
    "evicted_tokens",
    "invocations",
    "cpu_s",
}
SMALL = ("--workflows", "12", "--concurrency", "6", "--kv-tokens", "4000", "--jobs", "1")


def _run(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_a_grid_of_policies_queues_pools_and_seeds(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = _run(
        *SMALL,
        *("--policy", "lru,he+learned/pbkv", "--queue", "fcfs,lpm"),
        *("--kv-scale", "1,2", "--seeds", "2", "--json", str(file)),
    )
    assert done.exit_code == 0, done.output
    content = json.loads(file.read_text())
    rows = content["rows"]

    assert content["schema"] == 1
    assert len(rows) == 3 * 2 * 2
    assert all(row.keys() >= ROW_KEYS for row in rows)
    assert {row["variant"] for row in rows} == {"lru/fcfs", "lru/lpm", "he+learned/pbkv"}
    assert {row["access_model"] for row in rows if row["policy"] == "he"} == {"learned"}
    by_scale = {row["kv_scale"]: row["hit_rate"] for row in rows if row["variant"] == "lru/fcfs"}
    assert by_scale[2.0] > by_scale[1.0]
    assert "he+learned/pbkv" in done.stdout
    assert f"{sum(row['invocations'] for row in rows):,} invocations in " in done.stdout
    assert content["environment"]["finished"]


def test_processes_find_what_one_process_finds(tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file, jobs in zip(files, ("1", "2"), strict=True):
        assert _run(*SMALL[:-1], jobs, "--policy", "lru,lae", "--json", str(file)).exit_code == 0
    one, two = (json.loads(file.read_text())["rows"] for file in files)

    assert all(row.pop("cpu_s") > 0 for row in [*one, *two])
    assert one == two


def test_a_page_holds_table_and_curves(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    done = _run(*SMALL, "--policy", "lru,lae", "--kv-scale", "1,2", "--html", str(file))

    assert done.exit_code == 0, done.output
    page = file.read_text()
    assert "lae/fcfs" in page
    assert page.count("<svg") == 3


def test_a_cluster_that_grows_says_what_it_cost(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = _run(
        *("--workflows", "40", "--kv-tokens", "4000", "--jobs", "1", "--policy", "lae"),
        *("--replicas", "1", "--autoscale", "4", "--per-replica", "4", "--start-up", "5"),
        *("--arrivals", "2", "--json", str(file)),
    )
    assert done.exit_code == 0, done.output
    row = json.loads(file.read_text())["rows"][0]

    assert row["workflows"] == 40
    assert row["replicas_peak"] == 4
    assert 0 < row["replica_hours"] <= 4 * row["duration_s"] / 3600
    assert row["pins_most"] < 40
    assert "replica hours" in done.stdout


def test_a_cluster_of_two_has_twice_the_load_of_one(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ("--replicas", "2", "--policy", "lru", "--workflows", "20", "--jobs", "1")
    done = _run(*words, "--json", str(file))
    row = json.loads(file.read_text())["rows"][0]

    assert done.exit_code == 0, done.output
    assert row["concurrency"] == 144
    assert row["pins_mean"] == 10


def test_a_mooncake_trace_is_a_workload(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    request = {"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [1, 2, 3]}
    later = {"timestamp": 900, "input_length": 1200, "output_length": 5, "hash_ids": [1, 2, 4]}
    trace.write_text("\n".join(json.dumps(line) for line in (request, later)))
    file = tmp_path / "rows.json"
    done = _run("--workload", str(trace), "--policy", "lru", "--jobs", "1", "--json", str(file))

    assert done.exit_code == 0, done.output
    row = json.loads(file.read_text())["rows"][0]
    assert row["invocations"] == 2
    assert row["hit_rate"] == pytest.approx(1024 / 2300)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "best"], "unknown policy 'best'; choose from: lru, "),
        (["--queue", "lifo"], "unknown queue 'lifo'; choose from: fcfs, "),
        (["--policy", "session", "--queue", "pbkv"], "belongs to the plug-in"),
        (["--policy", "he+telepathy"], "unknown setting 'telepathy'"),
        (["--policy", "session+page/lpm"], "has no setting 'page' of the plug-in"),
        (["--policy", "he+gamma=7"], "gamma is 7.0"),
        (["--gpu", "abacus"], "unknown gpu 'abacus'; choose one of: a100, "),
        (["--model", "gpt"], "unknown model 'gpt'"),
        (["--workload", "chess"], "unknown workload 'chess'"),
        (["--workload", "no/such.jsonl"], "there is no file no/such.jsonl"),
        (["--kv-scale", "big"], "--kv-scale must be numbers"),
        (["--kv-scale", "0"], "--kv-scale must be above 0"),
        (["--kv-tokens", "64"], "needs"),
        (["--access-model", "psychic"], "unknown access model 'psychic'"),
        (["--agent-graph", "[1]", "--policy", "kvflow"], "agent_graph must be a JSON object"),
        (["--json", "/proc/none/rows.json"], "cannot write"),
        (["--html", "/proc/none/page.html"], "cannot write"),
        (["--html", "/"], "it is a folder"),
        (["--policy", "oracle", "--replicas", "2"], "policy oracle is for one engine"),
        (["--replicas", "3", "--autoscale", "2"], "max_replicas is 2, less than 3"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words: list[str], message: str) -> None:
    sizes = [word for pair in zip(SMALL[::2], SMALL[1::2], strict=True) for word in pair
             if pair[0] not in words]  # fmt: skip
    given = ["--policy", "he"] if "--policy" not in words else []
    done = _run(*sizes, *given, *words)

    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
