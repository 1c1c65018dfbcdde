import json

import pytest

from pbkv.workload import Segment, make_workflows
from services.bench.counters import EngineCounters, parse_counters
from services.bench.drive import BenchError, CallRecord, Replay
from services.bench.engine import EngineBench, check_prompts
from services.bench.engine_table import engine_table
from services.bench.render import SegmentRenderer
from services.bench.report import SCHEMA, ResultsFile, environment, show, write_json
from services.bench.summary import count_tokens, summarise
from services.bench.workload_defaults import defaults_of
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
    assert row["ttft_mean_s"] == pytest.approx(0.25)


def test_summary_takes_newcomers_apart():
    """101 first calls that wait 0 to 10 s, and later calls that wait longer."""
    first = [call(f"w{i}", 0, 10, 0, ttft_s=i / 10) for i in range(101)]
    later = [call(f"w{i}", 1, 10, 0, ttft_s=60.0) for i in range(101)]
    replay = Replay(first + later, {f"w{i}": float(i) for i in range(101)})

    row = summarise(replay)

    assert row["ttft_first_p95_s"] == pytest.approx(9.5)
    assert row["ttft_first_p99_s"] == pytest.approx(9.9)
    assert row["first_wait_max_s"] == pytest.approx(10.0)
    assert (row["latency_p50_s"], row["latency_p95_s"]) == (50.0, 95.0)


def test_counters_are_read_by_reason_and_as_the_engine_counts():
    text = "\n".join(
        (
            "# TYPE pbkv_evicted_tokens_total counter",
            'pbkv_evicted_tokens_total{reason="retired",replica="r"} 32.0',
            'pbkv_evicted_tokens_total{reason="host",replica="r"} 8.0',
            "# TYPE sglang:evicted_tokens_total counter",
            'sglang:evicted_tokens_total{cache_type="x"} 32.0',
            "# TYPE pbkv_prefetched_tokens_total counter",
            'pbkv_prefetched_tokens_total{replica="r"} 64.0',
            "# TYPE pbkv_prefetch_used_tokens_total counter",
            'pbkv_prefetch_used_tokens_total{replica="r"} 16.0',
            "",
        )
    )

    counters = parse_counters(text)

    assert counters == EngineCounters({"retired": 32, "host": 8}, 32, 64, 16)
    since = counters.since(EngineCounters({"retired": 30}, 20, 60, 16))
    assert since == EngineCounters({"retired": 2, "host": 8}, 12, 4, 0)
    assert count_tokens(since)["evicted_tokens"] == {"retired": 2, "host": 8}


def test_a_stock_engine_gives_no_reasons_but_a_total():
    row = count_tokens(EngineCounters({}, 48))

    assert row["evicted_tokens"] == {"total": 48}
    assert row["evicted_device_tokens"] == 48


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
    with pytest.raises(BenchError, match="raise --kv-tokens"):
        check_prompts(bench(pool_scales=(1.0, 0.02)))


def test_a_pool_is_scaled_in_whole_pages():
    assert [bench().pool_tokens(scale) for scale in (0.4, 1.0, 1.2)] == [1632, 4096, 4912]


def test_the_default_pool_has_the_pressure_of_the_paper_s_point():
    hover = defaults_of("hover")

    assert hover.kv_tokens(72, 1.0) == pytest.approx(58_500, rel=0.01)
    assert hover.kv_tokens(3, 0.07) % 16 == 0


@pytest.mark.parametrize("workload", ["hover", "swebench"])
def test_every_workload_fits_its_default_pool_at_four_tenths(workload):
    usual = defaults_of(workload)
    setup = bench(
        workload=workload,
        workflows=usual.workflows,
        concurrency=usual.concurrency,
        scale=usual.scale,
        kv_tokens=usual.kv_tokens(usual.concurrency, usual.scale),
        context_length=16_384,
        pool_scales=(0.4, 1.2),
    )

    check_prompts(setup)


def test_the_results_file_has_the_published_form(tmp_path):
    path = tmp_path / "out" / "rows.json"
    write_json(path, ["bench", "engine"], environment(model="tiny"), [{"policy": "lru"}])

    content = json.loads(path.read_text())

    assert content["schema"] == SCHEMA
    assert content["rows"] == [{"policy": "lru"}]
    assert content["environment"]["model"] == "tiny"
    assert set(content) == {"schema", "command", "environment", "rows"}


def test_a_results_file_is_whole_after_every_row(tmp_path):
    path = tmp_path / "rows.json"
    results = ResultsFile(path, ["bench"], {"model": "tiny"})
    seen = [json.loads(path.read_text())]
    results.add({"policy": "lru"})
    seen.append(json.loads(path.read_text()))
    results.finish()
    seen.append(json.loads(path.read_text()))

    assert [len(content["rows"]) for content in seen] == [0, 1, 1]
    assert [content["environment"]["finished"] for content in seen] == [False, False, True]
    assert list(tmp_path.iterdir()) == [path]


def test_the_table_has_a_line_for_each_pool_and_variant(capsys):
    replay = Replay([call("a", 0, 100, 40, ttft_s=2.5)], {"a": 3.0})
    measured = summarise(replay) | count_tokens(EngineCounters({"score": 1600}, 1600, 320, 160))
    rows = [
        {"variant": variant, "kv_scale": scale, **measured}
        for scale in (0.4, 1.0)
        for variant in ("he+learned/pbkv", "session/lpm")
        for _ in range(2)
    ]

    table = engine_table(rows)
    show(table)

    assert table.row_count == 4
    printed = capsys.readouterr().out
    assert "he+learned/pbkv" in printed
    assert "score 1,600" in printed
    assert "320 / 160" in printed
