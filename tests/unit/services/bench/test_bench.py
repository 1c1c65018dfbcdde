import json

import pytest

from pbkv.errors import SettingsError
from pbkv.settings import PolicySettings
from pbkv.workload import Segment, make_workflows
from services.bench.counters import Evicted, parse_evicted
from services.bench.drive import BenchError, CallRecord, Replay
from services.bench.engine import EngineBench, check_prompts, default_kv_tokens
from services.bench.render import SegmentRenderer
from services.bench.report import SCHEMA, environment, write_json
from services.bench.summary import summarise
from services.bench.variant import make_variants, variant_names
from services.models import resolve_model


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    return SegmentRenderer(resolve_model("tiny", tmp_path_factory.mktemp("models")))


def test_equal_seeds_render_to_equal_tokens_of_the_asked_length(renderer):
    shared, other = Segment("system", 40), Segment("else", 40)

    assert renderer.ids((shared,)) == renderer.ids((shared,))
    assert renderer.ids((shared,)) != renderer.ids((other,))
    assert len(renderer.ids((shared, other))) == 80


def test_real_text_comes_first_and_is_cut_or_continued(renderer):
    text = "The author of Paper Rivers was born in Cork."
    short, long = Segment("a", 3, text), Segment("b", 300, text)

    assert renderer.ids((long,))[:3] == renderer.ids((short,))
    assert len(renderer.ids((long,))) == 300


def call(workflow, step, prompt, device, host=0, ttft_s=0.1):
    return CallRecord(workflow, "A", step, prompt, device, host, 4, ttft_s, 1.0)


def test_summary_weighs_hit_rate_by_tokens():
    replay = Replay(
        calls=[call("a", 0, 100, 0, ttft_s=0.4), call("a", 1, 300, 200, host=100)],
        workflow_latency_s={"a": 3.0},
    )

    row = summarise(replay)

    assert row["hit_rate"] == pytest.approx(0.5)
    assert row["host_hit_rate"] == pytest.approx(0.25)
    assert row["latency_mean_s"] == 3.0
    assert row["ttft_first_p95_s"] == pytest.approx(0.4)
    assert row["ttft_mean_s"] == pytest.approx(0.25)


def test_counters_are_read_by_reason_and_as_the_engine_counts():
    text = "\n".join(
        (
            "# TYPE pbkv_evicted_tokens_total counter",
            'pbkv_evicted_tokens_total{reason="retired",replica="r"} 32.0',
            'pbkv_evicted_tokens_total{reason="host",replica="r"} 8.0',
            "# TYPE sglang:evicted_tokens_total counter",
            'sglang:evicted_tokens_total{cache_type="x"} 32.0',
            "",
        )
    )

    evicted = parse_evicted(text)

    assert evicted == Evicted({"retired": 32, "host": 8}, 32)
    assert evicted.since(Evicted({"retired": 30}, 20)) == Evicted({"retired": 2, "host": 8}, 12)


def test_an_unknown_variant_lists_the_choices():
    with pytest.raises(SettingsError, match="stock-lru"):
        make_variants(["belady"], ["fcfs"])
    with pytest.raises(SettingsError, match="lpm"):
        make_variants(["lru"], ["lifo"])


def test_every_named_variant_can_be_made():
    assert [v.policy for v in make_variants(variant_names(), ["fcfs"])] == variant_names()


def test_the_queue_pbkv_replaces_the_engines_own():
    (ours,) = make_variants(["lae"], ["pbkv"])
    (stock,) = make_variants(["lae"], ["lpm"])

    assert (ours.schedule_policy, ours.policy_settings(PolicySettings()).queue) == ("fcfs", "pbkv")
    assert (stock.schedule_policy, stock.policy_settings(PolicySettings()).queue) == ("lpm", "")


@pytest.mark.parametrize("policy", ["session", "stock-lru"])
def test_a_stock_engine_is_refused_under_the_queue_of_the_plug_in(policy):
    with pytest.raises(SettingsError, match="belongs to the plug-in"):
        make_variants(["lae", policy], ["fcfs", "pbkv"])


def test_a_policy_can_name_the_only_queue_it_is_measured_under():
    names = [v.name for v in make_variants(["lae", "session", "lae/pbkv"], ["fcfs", "lpm"])]

    assert names == ["lae/fcfs", "session/fcfs", "lae/lpm", "session/lpm", "lae/pbkv"]
    with pytest.raises(SettingsError, match="unknown queue 'lifo'"):
        make_variants(["lae/lifo"], ["fcfs"])


def bench(**changes):
    values = {
        "workload": "hover",
        "workflows": 4,
        "concurrency": 2,
        "repeats": 2,
        "scale": 0.2,
        "seed": 1,
        "kv_tokens": 4096,
        "max_running": 2,
        "host_ratio": 0.0,
        "context_length": 4096,
        "data_dir": None,
        "model_path": None,
    }
    return EngineBench(**(values | changes))


def test_every_repeat_has_workflows_of_its_own():
    assert bench().script(0) == make_workflows("hover", 4, seed=1, scale=0.2)
    assert bench().script(0) != bench().script(1)


def test_a_prompt_that_cannot_fit_is_found_before_anything_starts():
    check_prompts(bench())
    with pytest.raises(BenchError, match="raise --kv-tokens"):
        check_prompts(bench(kv_tokens=64))


def test_the_default_pool_has_the_pressure_of_the_paper_s_point():
    assert default_kv_tokens(72, 1.0) == pytest.approx(58_500, rel=0.01)
    assert default_kv_tokens(3, 0.07) % 16 == 0


def test_the_results_file_has_the_published_form(tmp_path):
    path = tmp_path / "out" / "rows.json"
    write_json(path, ["bench", "engine"], environment(model="tiny"), [{"policy": "lru"}])

    content = json.loads(path.read_text())

    assert content["schema"] == SCHEMA
    assert content["rows"] == [{"policy": "lru"}]
    assert content["environment"]["model"] == "tiny"
    assert set(content) == {"schema", "command", "environment", "rows"}
