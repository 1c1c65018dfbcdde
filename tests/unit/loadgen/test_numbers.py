"""Rows, transitions, phases, comparison: computed by hand here, by the package there."""

import json

import pytest

from loadgen.compare import compare
from loadgen.comparison_page import write_comparison
from loadgen.comparison_table import caveats, headline
from loadgen.errors import BadLoad
from loadgen.page import write_page
from loadgen.records import (
    MEANINGS,
    CallRecord,
    ErrorKind,
    RunRecords,
    WorkflowRecord,
    WorkflowState,
)
from loadgen.results import read_results, write_results
from loadgen.summary import rows, transitions
from loadgen.timeline import hit_rate_over_time, phases_of


def call(workflow, agent, step, sent_s, *, ttft=0.1, took=1.0, prompt=100, cached=50, **more):
    return CallRecord(
        workflow,
        agent,
        step,
        due_s=sent_s - 0.5,
        sent_s=sent_s,
        finished_s=sent_s + took,
        first_token_s=None if ttft is None else sent_s + ttft,
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=7,
        **more,
    )


def workflow(name, due_s, finished_s, state=WorkflowState.FINISHED, warm_up=False):
    return WorkflowRecord(name, due_s, due_s, finished_s, state, warm_up)


@pytest.fixture
def records():
    return RunRecords(
        calls=[
            call("warm", "A", 1, 0.0, cached=100),
            call("w1", "A", 1, 1.0),
            call("w1", "B", 2, 3.0, ttft=0.3, cached=100),
            call("w2", "A", 1, 1.0, prompt=None, cached=None),
            call("w2", "B", 2, 4.0, ttft=None, error=ErrorKind.TIMEOUT, cached=None),
        ],
        workflows=[
            workflow("warm", 0.0, 1.0, warm_up=True),
            workflow("w1", 0.0, 4.0),
            workflow("w2", 0.0, 9.0, WorkflowState.FAILED),
        ],
        duration_s=10.0,
    )


def test_rows(records):
    total, first, second = rows(records)
    assert (total["agent"], total["calls"], total["errors"]) == ("all", 4, 1)
    assert total["hit_rate"] == pytest.approx(150 / 200)
    assert total["latency_mean_s"] == 4.0
    assert total["ttft_mean_s"] == pytest.approx((0.1 + 0.3 + 0.1) / 3)
    assert total["lag_p99_s"] == pytest.approx(0.5)
    assert total["errors_by_kind"] == {"timeout": 1}
    assert (total["without_usage"], total["workflows_failed"]) == (1, 1)
    assert (first["agent"], first["hit_rate"], first["latency_mean_s"]) == ("A", 0.5, 1.0)
    assert (second["agent"], second["hit_rate"]) == ("B", 1.0)


def test_nothing_answered_is_none_not_zero():
    total = rows(RunRecords())[0]
    assert total["hit_rate"] is total["latency_mean_s"] is total["ttft_p95_s"] is None


def test_transitions(records):
    (pair,) = transitions(records)
    assert (pair["from"], pair["to"], pair["calls"], pair["errors"]) == ("A", "B", 2, 1)


def test_time(records):
    times_s, rates = hit_rate_over_time(records)
    assert times_s == (1.25, 2.25, 4.25)
    assert rates == (1.0, 0.5, 1.0)
    phases = phases_of(records)
    assert (phases.warm_until_s, phases.full_s) == (1.0, 0.0)


def make_run(path, latency_s, cached, count=60, workload="hover", seed=0):
    records = RunRecords(
        calls=[call(f"w{i}", "A", 1, 0.1 * i, cached=cached + i % 3) for i in range(count)],
        workflows=[workflow(f"w{i}", 0.0, latency_s + (i % 5) / 10) for i in range(count)],
        duration_s=10.0,
    )
    about = {"workload": workload, "name": path.stem, "seed": seed}
    write_results(path, records, command=["load", "run"], environment=about)
    return read_results(path)


def test_a_difference_is_told_from_noise(tmp_path):
    slow = make_run(tmp_path / "slow.json", 5.0, 20)
    fast = make_run(tmp_path / "fast.json", 4.0, 60)
    found = {line.measure: line for line in compare(slow, fast)}
    latency = found["workflow latency, mean"]
    assert latency.change.value == pytest.approx(-1.0)
    assert latency.change.low < -1.0 < latency.change.high < 0
    assert latency.verdict == "better"
    assert found["hit rate"].verdict == "better"
    assert found["hit rate"].second.value == pytest.approx(61.0)
    assert found["TTFT, mean"].verdict == "no clear difference"
    assert compare(fast, slow)[0].verdict == "worse"


def test_every_kind_of_error_is_explained():
    assert MEANINGS.keys() == set(ErrorKind)


def test_what_cannot_be_compared(tmp_path):
    one = make_run(tmp_path / "a.json", 5.0, 20)
    other = make_run(tmp_path / "b.json", 5.0, 20, workload="swebench")
    with pytest.raises(BadLoad, match="two workloads"):
        compare(one, other)
    broken = tmp_path / "c.json"
    for text in ("{", "{}", '{"schema": 2}', json.dumps({"schema": 1, "rows": []})):
        broken.write_text(text)
        with pytest.raises(BadLoad):
            read_results(broken)


def test_pages_hold_the_numbers(tmp_path, records):
    page = tmp_path / "run.html"
    write_page(
        page, records, workload="hover", model="m<1>", url="http://x", command=["load"], notes=["n"]
    )
    text = page.read_text()
    assert "m&lt;1&gt;" in text
    assert "75.0" in text
    assert "timeout" in text and MEANINGS[ErrorKind.TIMEOUT] in text
    assert "<script" not in text
    runs = [make_run(tmp_path / f"{n}.json", s, 20) for n, s in (("lru", 5.0), ("pbkv", 4.0))]
    found = compare(*runs)
    write_comparison(tmp_path / "both.html", *runs, found)
    text = (tmp_path / "both.html").read_text()
    assert headline(*runs, found) in text
    assert "workflow latency, mean 5.2 to 4.2 s (19 % less, better)" in headline(*runs, found)
    assert "The same workflows (hover) ran twice" in text
    assert text.count("<svg") == 2


def test_a_run_that_is_not_whole_is_pointed_out(tmp_path, records):
    about = {"workload": "hover", "name": "part"}
    write_results(tmp_path / "a.json", records, command=["load"], environment=about)
    part, whole = read_results(tmp_path / "a.json"), make_run(tmp_path / "whole.json", 5.0, 20)
    (line,) = caveats(part, whole)
    assert "1 of 2 workflows of part did not finish (failed calls: 1 timeout)" in line
    write_comparison(tmp_path / "both.html", part, whole, compare(part, whole))
    assert line in (tmp_path / "both.html").read_text()


def test_other_workflows_are_not_called_the_same(tmp_path):
    runs = [make_run(tmp_path / f"{n}.json", 5.0, 20, seed=n) for n in range(2)]
    write_comparison(tmp_path / "both.html", *runs, compare(*runs))
    assert (
        "Workflows of hover, not the same ones, ran twice" in (tmp_path / "both.html").read_text()
    )


def test_a_run_that_told_no_tokens_has_pages_too(tmp_path):
    silent = RunRecords([call("w", "A", 1, 0.1, prompt=None)], [workflow("w", 0.0, 1.0)], 1.0)
    write_page(
        tmp_path / "run.html", silent, workload="hover", model="m", url="http://x", command=["load"]
    )
    assert "there is no hit rate" in (tmp_path / "run.html").read_text()
    about = {"workload": "hover"}
    write_results(tmp_path / "a.json", silent, command=["load"], environment=about)
    run = read_results(tmp_path / "a.json")
    write_comparison(tmp_path / "both.html", run, run, compare(run, run))
    text = (tmp_path / "both.html").read_text()
    assert "Hit rate over time" not in text
    assert text.count("<svg") == 1
