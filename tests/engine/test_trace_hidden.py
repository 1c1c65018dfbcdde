"""Hidden states written by a real engine, joined to traces; a new checkpoint while it serves."""

import threading

import pytest
from typer.testing import CliRunner

from pbkv.trace import InvocationRecord, RecordKind, TracedCall, read_traces, write_traces
from services.cli.main import app
from tests.engine.published import publish_markov
from tests.engine.test_hidden_states import assert_is_last_token, reference
from tests.waiting import wait_until

pytest.importorskip("pyarrow", reason="hidden states are written as Parquet")


@pytest.fixture
def engine(states):
    return states


def chat(engine, workflow, agent, text, **fields):
    custom = {"pbkv": {"workflow": workflow, "agent": agent, **fields}}
    answer = engine.chat(text, max_tokens=4, temperature=0, custom_params=custom)
    answer.raise_for_status()
    return answer.json()


def test_states_are_joined_by_the_id_of_the_answer(engine, stock, prompts, tmp_path):
    """By both ways in; a state is that of the last prompt token, as stock SGLang returns it."""

    def written():
        return engine.metric("pbkv_trace_hidden_states_total", outcome="written")

    before = written()
    answer = chat(engine, "t:chat", "Planner", "Which agent is next?")
    prompt = prompts.new(100)
    body = engine.body(prompt, "t:ids", "Planner") | {"rid": "my-request"}
    engine.http.post("/generate", json=body).raise_for_status()
    wait_until(lambda: written() >= before + 2)
    records = [
        InvocationRecord(
            RecordKind.CALL, "t", workflow, 1, 1.0, 2.0, request_id=request_id, agent="Planner"
        )
        for workflow, request_id in (
            ("chat", answer["id"]),
            ("ids", "my-request"),
            ("chat", "another"),
        )
    ]
    traces, out = tmp_path / "traces.jsonl", tmp_path / "joined.parquet"
    write_traces(traces, map(TracedCall, records))

    result = CliRunner().invoke(
        app, ["trace", "join", str(traces), str(out), "--hidden", str(engine.hidden)]
    )

    assert result.exit_code == 0, result.output
    assert "wrote 3 records" in result.output and "2 with a hidden state" in result.output
    states = {call.record.request_id: call.hidden_state for call in read_traces(out)}
    assert states["another"] is None
    assert states[answer["id"]].shape == states["my-request"].shape
    assert_is_last_token(states["my-request"], reference(stock, prompt), 100)


def test_a_new_checkpoint_is_used_while_requests_run_and_none_is_lost(engine, prompts):
    """A version is published, a damaged one after it, and the good one again."""
    stop, answers, problems = threading.Event(), [], []
    bodies = [engine.body(prompts.new(40), f"bg-{i}", "Other", 24) for i in range(4)]

    def ask(body):
        while not stop.is_set():
            try:
                reply = engine.http.post("/generate", json=body)
                reply.raise_for_status()
                answers.append(len(reply.json()["output_ids"]))
            except Exception as problem:
                problems.append(repr(problem))
                return

    threads = [threading.Thread(target=ask, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(answers) > 4)
        publish_markov(engine.checkpoints, "Tester")
        wait_until(lambda: engine.metric("pbkv_predictor_reloads_total", outcome="applied") == 1)
        broken = engine.checkpoints.folder / "versions" / "000009.json"
        broken.write_text("{")
        engine.checkpoints.point_to("000009.json")
        wait_until(lambda: engine.metric("pbkv_predictor_reloads_total", outcome="refused") == 1)
        engine.checkpoints.point_to("000002.json")
        wait_until(lambda: engine.metric("pbkv_predictor_reloads_total", outcome="applied") == 2)
        served = len(answers)
        wait_until(lambda: len(answers) > served + 4)
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert problems == []
    assert set(answers) == {24}
    assert engine.metric("pbkv_forecasts_total", outcome="failed") == 0


def test_the_shadow_is_judged_beside_the_predictor_in_use(engine, prompts):
    """The shadow learns from what it sees; its accuracy is its own."""

    def applied():
        return engine.metric("pbkv_forecasts_total", outcome="applied")

    for i in range(6):
        for agent in ("Planner", "Tester"):
            before = applied()
            engine.generate(prompts.new(20), f"judged-{i}", agent, end=agent == "Tester")
            if agent == "Planner":
                wait_until(lambda before=before: applied() > before)

    wait_until(lambda: engine.metric("pbkv_shadow_forecast_accuracy", k="1") > 0)
    assert engine.metric("pbkv_forecast_accuracy", k="1") > 0
    assert 0 <= engine.metric("pbkv_forecast_calibration_error", k="1") <= 1
    assert 0 <= engine.metric("pbkv_shadow_forecast_calibration_error", k="1") <= 1
