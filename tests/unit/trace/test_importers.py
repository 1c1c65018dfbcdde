"""Logs of other systems become traces.

Samples called ``langgraph``, ``autogen_teams`` and ``crewai_crew`` were written by those
frameworks (langsmith 0.15.1, autogen 0.7.5, crewai 1.15.30), their texts cut; the others follow the
formats that are documented, for what is hard to provoke.
"""

import json
from pathlib import Path

import pytest

from pbkv.errors import InvalidTrace
from pbkv.trace import RecordKind, TracedCall, read_record, workflows_of
from pbkv.trace.importers import IMPORTERS, import_traces

SAMPLES = Path(__file__).parent / "samples"
FILES = {
    "langsmith": "langsmith.jsonl",
    "otel": "otlp.jsonl",
    "autogen": "autogen.log",
    "crewai": "crewai.jsonl",
}
TEN_S = 1772359200.0
"""2026-03-01 10:00:00 UTC"""


def imported(source, name=None):
    return import_traces(source, SAMPLES / (name or FILES[source]), tenant="lab")


def workflows(records):
    return {w.workflow_id: w for w in workflows_of(map(TracedCall, records))}


def times(record):
    return tuple(round(t - TEN_S, 3) for t in (record.sent_at_s, record.finished_at_s))


@pytest.mark.parametrize("source", IMPORTERS)
def test_what_is_imported_fits_the_schema_and_holds_no_text(source):
    records = imported(source)

    assert records
    for record in records:
        assert read_record(record.to_dict()) == record
        assert record.tenant == "lab"
        assert "secret" not in json.dumps(record.to_dict())
    sent = [r.sent_at_s for r in records if r.kind is RecordKind.CALL]
    assert sent == sorted(sent)


def test_langsmith_runs():
    found = workflows(imported("langsmith"))

    finished = found["lab:0f6a1d1e-0000-4000-8000-000000000001"]
    assert [c.record.agent for c in finished.calls] == ["planner", "critic", "writer"]
    assert finished.ended
    first, second, third = (c.record for c in finished.calls)
    assert (first.prompt_tokens, first.cached_tokens, first.completion_tokens) == (120, 64, 30)
    assert (first.model, first.application, first.finish_reason) == ("qwen3", "research", "stop")
    assert first.request_id == "chatcmpl-1"
    assert times(first) == (0.2, 2.0)
    assert round(first.first_token_at_s - TEN_S, 3) == 0.7
    assert (second.prompt_tokens, second.cached_tokens, second.completion_tokens) == (200, 128, 10)
    assert third.error == "APITimeoutError"
    pending = found["lab:t2"]
    assert (pending.agents, pending.ended) == (("planner",), False)


def test_otlp_spans():
    found = workflows(imported("otel"))

    trace = found["lab:5b8efff798038103d269b633813fc60c"]
    assert [c.record.agent for c in trace.calls] == ["Router", "Solver"]
    assert trace.ended
    first, second = (c.record for c in trace.calls)
    assert (first.prompt_tokens, first.cached_tokens, first.completion_tokens) == (90, 48, 12)
    assert (first.model, first.application) == ("qwen3-14b", "triage")
    assert (first.request_id, first.finish_reason) == ("chatcmpl-7", "tool_calls")
    assert times(first) == (0.02, 1.0)
    assert round(first.first_token_at_s - first.sent_at_s, 3) == 0.25
    assert (second.error, second.prompt_tokens) == ("timeout", 70)
    conversation = found["lab:conv_1"]
    assert (conversation.agents, conversation.ended) == (("Solver",), False)
    assert conversation.calls[0].record.application == "desk"


def test_spans_of_the_sdk():
    (trace,) = workflows(imported("otel", "otel_sdk.jsonl")).values()

    assert (trace.workflow_id, trace.agents, trace.ended) == ("lab:5b8e", ("Planner",), True)
    assert times(trace.calls[0].record) == (1.0, 3.0)


def test_autogen_events():
    found = workflows(imported("autogen"))

    team = found["lab:f3c1b0de-1111-4222-8333-444455556666"]
    assert (team.agents, team.ended) == (("coder", "reviewer"), False)
    first, second = (c.record for c in team.calls)
    assert (first.prompt_tokens, first.cached_tokens, first.completion_tokens) == (100, 16, 20)
    assert (first.request_id, first.finish_reason) == ("chatcmpl-1772359200", "stop")
    assert times(first) == (0.0, 2.5)
    assert times(second) == (5.25, 5.25), "a stream's end does not tell when it began"
    assert found["lab:autogen"].agents == ("Summarizer",)


def test_crewai_events():
    found = workflows(imported("crewai"))

    one, two = found["lab:k1"], found["lab:k2"]
    assert [c.record.agent for c in one.calls] == ["Researcher", "Writer"]
    assert (one.agents, one.ended) == (("Researcher",), True)
    assert (two.agents, two.ended) == (("Researcher",), False)
    first, failed = (c.record for c in one.calls)
    assert (first.prompt_tokens, first.cached_tokens, first.completion_tokens) == (80, 32, 20)
    assert (first.application, first.model) == ("report", "openai/qwen3")
    assert (first.request_id, times(first)) == ("chatcmpl-1", (1.0, 2.5))
    assert failed.error == "ContextWindowExceededError"
    assert two.calls[0].record.prompt_tokens == 81


def test_runs_that_langgraph_sent_to_langsmith():
    done, failed = workflows(imported("langsmith", "langgraph_runs.jsonl")).values()

    assert (done.agents, done.ended) == (("retriever", "verifier"), True)
    first, streamed = (c.record for c in done.calls)
    assert (first.prompt_tokens, first.completion_tokens, first.request_id) == (11, 3, "answer-1")
    assert streamed.sent_at_s < streamed.first_token_at_s < streamed.finished_at_s
    assert failed.ended
    assert [c.record.error for c in failed.calls] == ["OpenAIConnectionError"]


def test_spans_that_langgraph_sent_to_opentelemetry():
    found = workflows(imported("otel", "langgraph_spans.jsonl"))

    thread = found.pop("lab:thread-7")
    assert (thread.agents, thread.ended) == (("retriever", "verifier"), False)
    assert thread.calls[0].record.prompt_tokens == 11
    agent, failed = found.values()
    assert (agent.agents, agent.ended) == (("soloist",), True)
    assert [(c.record.agent, c.record.error) for c in failed.calls] == [("failing", "Exception")]


def test_events_of_autogen_teams():
    found = workflows(imported("autogen", "autogen_teams.log"))

    agents = sorted(w.agents for w in found.values())
    assert agents[0] == ("coder", "tester") == agents[1]
    assert agents[2:] == [("default",), ("selector", "selector", "selector", "coder")]
    for call in (call for w in found.values() for call in w.calls):
        # The server of this log says that every answer was created in 1970.
        assert call.record.sent_at_s > TEN_S
    streamed = next(w for w in found.values() if w.calls[0].record.request_id == "")
    assert streamed.calls[0].record.prompt_tokens is None, "0 in the log: not told"


def test_events_of_a_crew():
    (crew,) = workflows(imported("crewai", "crewai_crew.jsonl")).values()

    assert (crew.agents, crew.ended) == (("Extractor", "Writer"), True)
    assert all(c.record.finished_at_s > c.record.sent_at_s for c in crew.calls)
    assert [c.record.completion_tokens for c in crew.calls] == [3, 3]


def test_a_list_and_an_object_with_one_are_read_too(tmp_path):
    runs = [json.loads(line) for line in (SAMPLES / "langsmith.jsonl").read_text().splitlines()]
    for name, content in (("list", runs), ("object", {"runs": runs})):
        (tmp_path / name).write_text(json.dumps(content))
        assert import_traces("langsmith", tmp_path / name, tenant="lab") == imported("langsmith")


@pytest.mark.parametrize(
    ("source", "content", "words"),
    [
        ("langsmith", "[1]", "item 1: must be an object"),
        ("langsmith", '{"id": "a"}', "a run has an id and a run_type"),
        (
            "langsmith",
            '{"id": "a", "run_type": "llm", "start_time": "soon", "end_time": "2026-01-01"}',
            "start_time: must be a time in ISO 8601",
        ),
        (
            "langsmith",
            '{"id": "a", "run_type": "llm", "start_time": 1, "end_time": 2, "prompt_tokens": "x"}',
            "prompt_tokens: must be a count",
        ),
        ("otel", '{"spans": []}', "neither resourceSpans"),
        ("otel", '{"context": {"trace_id": "a"}}', "context.span_id: is missing"),
        ("otel", "{}\nnot json", "line 1|neither"),
        ("autogen", '{"type": "LLMCall", "prompt_tokens": 1}', "line 1: no time"),
        ("crewai", '{"kind": "x"}', "type: is missing"),
        ("crewai", '{"type": "llm_call_completed", "call_id": "1"}', "timestamp: is missing"),
        ("nobody", "{}", "choose one of: langsmith, otel, autogen, crewai"),
    ],
)
def test_what_cannot_be_read_is_told_by_place_and_field(tmp_path, source, content, words):
    path = tmp_path / "log"
    path.write_text(content)

    with pytest.raises(InvalidTrace, match=words) as problem:
        import_traces(source, path)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("source", IMPORTERS)
def test_a_file_that_is_not_there(tmp_path, source):
    with pytest.raises(InvalidTrace, match="No such file"):
        import_traces(source, tmp_path / "absent")
