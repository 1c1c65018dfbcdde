from __future__ import annotations

import json
from pathlib import Path

import pytest

from pbkv.workload import WorkloadDataError, make_workflows
from pbkv.workload.financebench import AGENTS, CALLS_PER_AGENT, DATA_FILE, GRAPH, load_questions


def test_every_workflow_calls_the_same_agents_in_the_same_order() -> None:
    expected = [agent for agent in AGENTS for _ in range(CALLS_PER_AGENT)]
    for script in make_workflows("financebench", 20, seed=1):
        assert [call.agent for call in script.calls] == expected


def test_the_graph_allows_exactly_what_happens() -> None:
    happened = {
        (before.agent, after.agent)
        for script in make_workflows("financebench", 5, seed=1)
        for before, after in zip(script.calls, script.calls[1:], strict=False)
    }
    assert happened <= {(agent, after) for agent, followers in GRAPH.items() for after in followers}


def test_questions_on_one_document_begin_alike_up_to_the_question() -> None:
    scripts = make_workflows("financebench", 150, seed=1)
    pages = [script.contexts["Locator"][1].seed for script in scripts]

    # The data set asks 150 questions of 84 documents.
    assert 55 < len(set(pages)) < 84
    systems = {script.contexts["Locator"][0].seed for script in scripts}
    assert len(systems) == 1


def test_scale_shrinks_prompts_in_proportion() -> None:
    whole, half = (
        sum(
            tokens
            for script in make_workflows("financebench", 20, seed=1, scale=scale)
            for tokens in script.prompt_tokens()
        )
        for scale in (1.0, 0.5)
    )
    assert abs(half / whole - 0.5) < 0.01


def test_the_data_set_is_read_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / DATA_FILE
    file.parent.mkdir()
    evidence = {
        "evidence_page_num": 7,
        "evidence_text": "e" * 400,
        "evidence_text_full_page": "p" * 4000,
    }
    record = {"financebench_id": 1, "doc_name": "A", "question": "q" * 80, "evidence": [evidence]}
    file.write_text(json.dumps(record) + "\n")
    [question] = load_questions(tmp_path)

    assert (question.question_tokens, question.evidence_tokens) == (20, 100)
    assert (question.document, question.page_tokens) == ("A/7", 1000)
    assert len(make_workflows("financebench", 3, seed=1, data_dir=tmp_path)) == 3

    file.write_text("{}\n")
    with pytest.raises(WorkloadDataError, match="line 1"):
        load_questions(tmp_path)
