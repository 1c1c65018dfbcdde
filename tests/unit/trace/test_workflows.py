"""Workflows put together from records, and replayed."""

import random

import pytest

from pbkv.errors import InvalidTrace
from pbkv.trace import InvocationRecord, RecordKind, TracedCall, workflows_of
from pbkv.trace.replay import ContextLayout, scripted_workflows, shared_prefixes
from pbkv.workload import make_workflows


def call(workflow, seq, agent="A", *, at_s=None, prompt=100, output=10, **fields):
    at_s = float(seq) if at_s is None else at_s
    return TracedCall(
        InvocationRecord(
            RecordKind.CALL,
            "t",
            workflow,
            seq,
            sent_at_s=at_s,
            finished_at_s=at_s + 0.5,
            agent=agent,
            prompt_tokens=prompt,
            completion_tokens=output,
            **fields,
        )
    )


def end(workflow, seq):
    return TracedCall(InvocationRecord(RecordKind.END, "t", workflow, seq, float(seq), float(seq)))


def test_calls_are_grouped_ordered_and_counted_once():
    records = [call("v", 1, "X"), call("w", 2, "A"), call("w", 4, "B"), call("w", 6, "A", end=True)]
    shuffled = [*records, records[1], records[3]]
    random.Random(3).shuffle(shuffled)

    first, second = workflows_of(shuffled)

    assert (first.workflow_id, first.agents, first.ended) == ("t:v", ("X",), False)
    assert (second.workflow_id, second.agents, second.ended) == ("t:w", ("A", "B", "A"), True)


def test_an_end_of_its_own_ends_a_workflow_and_a_later_call_begins_another():
    lives = workflows_of([call("w", 1), call("w", 2, "B"), end("w", 3), call("w", 4, "C")])

    assert [(life.agents, life.ended) for life in lives] == [(("A", "B"), True), (("C",), False)]


def test_an_end_without_calls_is_no_workflow():
    assert workflows_of([end("w", 3)]) == []


def test_silence_ends_a_workflow():
    calls = [call("old", 1), call("new", 2, at_s=500.0)]

    assert [w.ended for w in workflows_of(calls)] == [False, False]
    assert [w.ended for w in workflows_of(calls, idle_timeout_s=100)] == [True, False]


def test_tenants_do_not_mix():
    other = InvocationRecord(RecordKind.CALL, "u", "w", 1, 1.0, 2.0, agent="B")

    assert len(workflows_of([call("w", 1), TracedCall(other)])) == 2


def test_a_call_that_failed_is_kept_and_not_learnt_from():
    (workflow,) = workflows_of([call("w", 1), call("w", 2, "B", error="replica_lost")])

    assert len(workflow.calls) == 2
    assert workflow.agents == ("A",)


@pytest.mark.parametrize("layout", ContextLayout)
def test_a_replay_has_the_lengths_the_order_and_the_pauses_of_the_trace(layout):
    rng = random.Random(5)
    traces = workflows_of(
        call(f"w{w}", s, rng.choice("ABC"), at_s=10.0 * s, prompt=rng.randint(20, 400), output=s)
        for w in range(20)
        for s in range(1, 9)
    )

    scripts = scripted_workflows(traces, layout)

    for trace, script in zip(traces, scripts, strict=True):
        lengths = [c.record.prompt_tokens for c in trace.calls]
        assert list(script.prompt_tokens()) == lengths
        assert tuple(c.agent for c in script.calls) == trace.agents
        assert [c.output_tokens for c in script.calls] == list(range(1, 9))
        assert [c.pause_s for c in script.calls] == [9.5] * 7 + [0.0]


def test_a_growing_prompt_is_one_context_and_a_shorter_one_begins_another():
    calls = [
        call("w", 1, "A", prompt=100, output=20),
        call("w", 2, "A", prompt=150, output=20),
        call("w", 3, "A", prompt=90, output=20),
    ]

    (script,) = scripted_workflows(workflows_of(calls))

    assert [c.context for c in script.calls] == ["A#0", "A#0", "A#1"]
    assert [c.keep_output for c in script.calls] == [True, False, False]
    assert [sum(s.num_tokens for s in c.added) for c in script.calls] == [100, 30, 90]


def test_a_transcript_of_a_scripted_workload_is_found_again():
    """What the script shares is what its replay shares, if the instructions stay in the prompt."""
    original = make_workflows("hover", 5, seed=1, scale=0.2)
    calls = [
        call(script.workflow_id, seq, c.agent, prompt=prompt, output=c.output_tokens)
        for script in original
        for seq, (c, prompt) in enumerate(
            zip(script.calls, script.prompt_tokens(), strict=True), start=1
        )
    ]

    replayed = scripted_workflows(workflows_of(calls), ContextLayout.SHARED)

    by_agents = {tuple(c.agent for c in s.calls): s for s in original}
    for script in replayed:
        source = by_agents[tuple(c.agent for c in script.calls)]
        assert list(script.prompt_tokens()) == list(source.prompt_tokens())


def test_shared_prefixes_are_the_least_that_was_found_after_the_first_workflow():
    traces = workflows_of(
        call(f"w{i}", i, cached_tokens=cached) for i, cached in enumerate([0, 80, 64, 96], start=1)
    )

    assert shared_prefixes(traces) == {"A": 64}
    scripts = scripted_workflows(traces)
    assert {s.contexts["A#0"][0].seed for s in scripts} == {"trace/A"}
    assert {s.contexts["A#0"][0].num_tokens for s in scripts} == {64}


def test_lengths_that_nobody_counted_cannot_be_replayed():
    with pytest.raises(InvalidTrace, match="call 1 has no token counts"):
        scripted_workflows(workflows_of([call("w", 1, prompt=None)]))
