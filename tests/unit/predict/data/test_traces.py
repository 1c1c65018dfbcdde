"""Traces to train on."""

import json
import random
import re
from collections import Counter
from itertools import pairwise

import pytest

from pbkv.errors import SettingsError
from pbkv.predict.data import make_traces
from pbkv.predict.data.hover import ANSWERS, FactGraph, fact_calls
from pbkv.predict.data.hover_wording import entities, wording
from pbkv.workload.data import WorkloadDataError

EDGES = {
    "Planner": {"Query"},
    "Query": {"Retriever"},
    "Retriever": {"Reader", "Judge", "Query"},
    "Reader": {"Judge", "Query"},
    "Judge": {"Verdict", "Refiner"},
    "Refiner": {"Query", "Retriever"},
    "Verdict": {"Critic", "END"},
    "Critic": {"Verdict", "Refiner"},
}


def test_the_same_seed_gives_the_same_traces():
    assert make_traces("hover", 5, seed=3) == make_traces("hover", 5, seed=3)
    assert make_traces("hover", 5, seed=3) != make_traces("hover", 5, seed=4)


def test_workflows_follow_the_call_graph_and_take_every_branch():
    seen = {agent: set() for agent in EDGES}
    for trace in make_traces("hover", 150, seed=1):
        for agent, following in zip(trace.agents, [*trace.agents[1:], "END"], strict=True):
            seen[agent].add(following)

    assert seen == EDGES


def test_what_decides_a_branch_is_stated_before_it():
    """Where nothing is misstated, a Judge's note settles who comes next."""
    graph, rng = FactGraph(misstated=0.0), random.Random(0)
    for _ in range(100):
        calls = fact_calls(3, graph, rng)
        for call, following in pairwise(calls):
            facts = dict(call.stated)
            if call.agent == "Judge":
                assert (facts["cover"] == "settled") == (following.agent == "Verdict")
            if call.agent == "Retriever":
                assert (facts["read"] == "yes") == (following.agent == "Reader")


def test_facts_are_misstated_as_often_as_is_said():
    graph, rng = FactGraph(misstated=0.3), random.Random(0)
    wrong = Counter()
    for _ in range(300):
        calls = fact_calls(2, graph, rng)
        for call, following in pairwise(calls):
            if call.agent == "Retriever":
                said = dict(call.stated)["read"] == "yes"
                wrong[said != (following.agent == "Reader")] += 1

    assert 0.22 < wrong[True] / wrong.total() < 0.38


def test_every_fact_has_several_wordings_and_none_is_a_tag():
    for question, answers in ANSWERS.items():
        said = {}
        for answer in answers:
            rng = random.Random(0)
            said[answer] = {wording((question, answer), ("X",), rng) for _ in range(200)}
            assert len(said[answer]) >= 5
        assert not set.intersection(*said.values())


def test_the_prompt_is_the_transcript_and_the_instruction_of_that_call():
    trace = make_traces("hover", 1, seed=1)[0]

    first, second = trace.user_message(0), trace.user_message(1)

    assert first.startswith("Claim: ")
    assert first.endswith("Planner:")
    assert second.endswith("Query:")
    assert second.startswith(first.removesuffix("Planner:"))


def test_names_in_a_claim():
    assert entities("The band Pearl Jam toured with Eddie.") == ("Jam", "Eddie")
    assert entities("nothing here") == ("the subject",)


def test_swebench_traces_have_agents_and_no_text():
    trace = make_traces("swebench", 3, seed=1)[0]

    assert not trace.has_text
    assert re.fullmatch(r"Manager|Reproducer|Debugger|Programmer|Tester", trace.agents[0])


def log(*messages):
    return {"history": [{"role": role, "content": content} for role, content in messages]}


def test_logs_become_calls_that_see_what_was_said_before(tmp_path):
    folder = tmp_path / "who_and_when"
    folder.mkdir()
    lines = [
        log(
            ("human", "Find it."),
            ("Orchestrator (thought)", "A plan."),
            ("Orchestrator (-> WebSurfer)", "Search."),
            ("WebSurfer", "x" * 1000),
        ),
        log(("human", "Nothing was done.")),
    ]
    path = folder / "who_and_when_hand_crafted.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))

    (trace,) = make_traces("who-and-when", 10, seed=1, data_dir=tmp_path)

    assert trace.agents == ("Orchestrator", "Orchestrator", "WebSurfer")
    assert "A plan." in trace.user_message(1)
    assert "Search." not in trace.user_message(1)
    assert "x" not in trace.user_message(2).replace("xx", "")


@pytest.mark.parametrize(
    ("workload", "error", "word"),
    [
        ("hoover", SettingsError, "choose one of: hover"),
        ("who-and-when", WorkloadDataError, "--data"),
    ],
)
def test_what_cannot_be_made_is_refused(workload, error, word):
    with pytest.raises(error, match=word):
        make_traces(workload, 1, seed=1)


def test_missing_logs_are_refused_in_one_line(tmp_path):
    with pytest.raises(WorkloadDataError, match="cannot read"):
        make_traces("who-and-when", 1, seed=1, data_dir=tmp_path)
