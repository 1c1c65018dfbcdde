import importlib.util
import itertools
import json

import pytest
from typer.testing import CliRunner

from pbkv.errors import SettingsError
from pbkv.policy import Tier
from pbkv.settings import PolicySettings
from services.bench.drive import BenchError
from services.bench.local_cache import TreeCore
from services.bench.policy import PolicyBench, Samples, parse_sizes, run_policy_bench
from services.bench.policy_targets import policy_table, verdict_table, verdicts
from services.bench.synthetic_tree import AGENTS, WORKFLOWS, SyntheticTree
from services.cli.bench import app

needs_engine = pytest.mark.skipif(
    importlib.util.find_spec("sglang") is None, reason="the engine extra is not installed"
)


def tree(core, nodes=300):
    return SyntheticTree(core, nodes, 32, PolicySettings(policy="pbkv"), seed=1)


@needs_engine
@pytest.mark.parametrize("core", list(TreeCore))
def test_every_implementation_gets_the_same_tree_and_frees_what_is_asked(core):
    synthetic = tree(core)

    assert synthetic.cache.evictable_size() == 300 * 32
    assert synthetic.evict(1024).num_tokens_evicted == 1024
    synthetic.add_leaves(1024 // 32)
    assert synthetic.cache.evictable_size() == 300 * 32
    synthetic.cache.sanity_check()


@needs_engine
def test_the_policy_knows_the_tree_as_72_workflows_of_8_agents_left_it():
    policy = tree(TreeCore.PBKV, nodes=8 + 72 * 8).policy

    assert policy.workflows.num_active == len(WORKFLOWS) == 72
    for workflow in WORKFLOWS:
        tags = [node.accesses[workflow] for node in policy.nodes_of(workflow)]
        # One prompt shared by all workflows and one leaf for each agent.
        assert sorted(map(sorted, tags)) == sorted([agent] for agent in AGENTS for _ in range(2))
    assert len(policy.candidates(Tier.DEVICE)) == 72 * 8
    assert all(policy.score(node) > 0.0 for node in policy.candidates(Tier.DEVICE))


@needs_engine
def test_the_rows_have_the_published_keys_for_every_implementation():
    ticks = itertools.count(0, 1000)
    bench = PolicyBench(nodes=(300, 400), repeats=3, node_tokens=32)

    said = []
    rows = run_policy_bench(bench, said.append, clock=lambda: next(ticks))

    assert not any("left out" in line for line in said)
    (predict,) = (row for row in rows if row["op"] == "predict")
    assert (predict["nodes"], predict["prefixes"], predict["samples"]) == (0, 1024, 3)
    assert predict["mean_us"] == 1.0
    timed = [row for row in rows if row["op"] not in ("memory", "predict")]
    assert {(row["op"], row["implementation"], row["nodes"]) for row in timed} == {
        (op, core.value, nodes)
        for nodes in (300, 400)
        for op, cores in (
            ("evict", list(TreeCore)),
            ("evict-and-free", list(TreeCore)),
            ("score", [TreeCore.PBKV]),
            ("score-entry", [TreeCore.PBKV]),
            ("apply", [TreeCore.PBKV]),
            ("prefetch", [TreeCore.PBKV]),
        )
        for core in cores
    }
    for row in timed:
        assert row["samples"] == 3
        assert 0.0 <= row["mean_us"] <= row["p99_us"] + 1e-9 or "score" in row["op"]
    # A clock that ticks once per reading: apply is one tick, and score a share of it.
    assert all(row["mean_us"] == 1.0 for row in timed if row["op"] in ("apply", "prefetch"))
    memory = [row for row in rows if row["op"] == "memory"]
    assert [row["nodes"] for row in memory] == [300, 400]
    # Hardly two of so few nodes are alike, so that nearly every one has a tag to itself.
    assert all(100 < row["bytes_per_node"] < 3000 for row in memory)


@needs_engine
def test_a_policy_that_does_not_prefetch_has_no_row_for_it():
    bench = PolicyBench(nodes=(300,), repeats=1, node_tokens=32, policy="he")

    rows = run_policy_bench(bench, lambda line: None)

    assert "prefetch" not in {row["op"] for row in rows}


def test_samples_give_mean_and_99th_percentile():
    row = Samples([1000.0 * n for n in range(1, 101)]).row("evict", TreeCore.PBKV, 50)

    assert row["mean_us"] == 50.5
    assert row["p99_us"] == 100.0


def measured(evict=400.0, evict_1k=300.0, stock=5000.0):
    rows = []
    for nodes, mean in ((1000, evict_1k), (50_000, evict)):
        rows.append(Samples([1000 * mean]).row("evict", TreeCore.PBKV, nodes))
    rows.append(Samples([1000 * stock]).row("evict", TreeCore.STOCK_PYTHON, 50_000))
    rows.append(
        {"op": "memory", "implementation": "pbkv", "nodes": 50_000, "bytes_per_node": 700.0}
    )
    return rows


def test_targets_are_met_or_missed_by_the_rows():
    assert [v.met for v in verdicts(measured())] == [True, True, True, True]
    assert [v.met for v in verdicts(measured(evict=500.0))] == [False, True, False, True]
    assert [v.met for v in verdicts(measured(evict_1k=100.0))] == [True, True, False, True]
    assert [v.met for v in verdicts(measured(stock=3999.0))] == [True, True, True, False]


def test_only_sizes_that_were_measured_are_judged():
    assert verdicts([row for row in measured() if row["nodes"] == 1000]) == []


def test_tables_have_a_line_for_every_row_and_verdict():
    rows = measured()

    assert policy_table(rows).row_count == len(rows)
    assert verdict_table(rows).row_count == len(verdicts(rows))


def test_bad_sizes_and_policies_are_refused_before_anything_is_built():
    with pytest.raises(BenchError, match="whole numbers"):
        parse_sizes("1000,many")
    with pytest.raises(BenchError, match="at least 72"):
        PolicyBench(nodes=(71,), repeats=1)
    with pytest.raises(BenchError, match="multiple of the page size"):
        PolicyBench(nodes=(1000,), repeats=1, node_tokens=20)
    with pytest.raises(SettingsError, match="unknown policy"):
        PolicyBench(nodes=(1000,), repeats=1, policy="belady")
    assert parse_sizes("50000,1000,1000") == (1000, 50_000)


@needs_engine
def test_the_command_prints_tables_and_writes_the_results_file(tmp_path):
    path = tmp_path / "policy.json"
    result = CliRunner().invoke(
        app, ["policy", "--nodes", "300", "--repeats", "2", "--node-tokens", "32",
              "--json", str(path)],
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    assert "stock-rust" in result.output
    content = json.loads(path.read_text())
    assert content["schema"] == 1 and content["environment"]["workflows"] == 72
    assert {"op", "implementation", "nodes", "mean_us", "p99_us"} <= content["rows"][0].keys()


def test_the_command_refuses_bad_input_with_one_line_and_exit_code_2():
    result = CliRunner().invoke(app, ["policy", "--nodes", "ten"])

    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
