"""Workloads against a real router: every call is named, and the numbers are the answers' own."""

import asyncio
from collections import Counter

import pytest

from loadgen.arrivals import ArrivalKind, Arrivals
from loadgen.errors import BadLoad
from loadgen.measure import measure
from loadgen.records import WorkflowState
from loadgen.run import Pace
from loadgen.summary import rows
from tests.contract.loadgen.plans import one_call_source, small_plan


@pytest.mark.parametrize("workload", ["hover", "swebench", "financebench"])
async def test_every_call_carries_workflow_and_agent(router, engine, fleet, workload):
    engine.faults.cached_tokens = 5
    plan = small_plan(router.url, workload, count=4)
    measured = await measure(plan)
    scripts = plan.source.scripts
    wanted = Counter((f"t-{s.workflow_id}", call.agent) for s in scripts for call in s.calls)
    seen = [request.invocation for request in engine.requests]
    assert Counter((i["workflow"].split(":")[-1], i["agent"]) for i in seen) == wanted
    assert sum(bool(i.get("end")) for i in seen) == len(scripts)
    for script in scripts:
        workflow = await fleet.workflow(f"t-{script.workflow_id}")
        assert workflow["state"] == "retired"
    total = rows(measured.records)[0]
    assert (total["calls"], total["errors"]) == (wanted.total(), 0)
    assert total["workflows_finished"] == len(scripts)
    assert total["hit_rate"] == pytest.approx(5 / 11)
    # A busy machine makes the load generator late, which it says.
    assert [note for note in measured.notes if "was late" not in note] == []


async def test_calls_of_a_workflow_keep_their_order_and_prefix(router, engine):
    plan = small_plan(router.url, "swebench", count=1)
    await measure(plan)
    asked = [request.json for request in engine.requests]
    script = plan.source.scripts[0]
    assert [body["max_tokens"] for body in asked] == [call.output_tokens for call in script.calls]
    by_agent = {}
    for call, body in zip(script.calls, asked, strict=True):
        before = by_agent.get(call.agent, [])
        assert body["messages"][: len(before)] == before
        by_agent[call.agent] = body["messages"]


async def test_an_open_loop_does_not_wait_for_answers(router, engine):
    engine.faults.hold = True
    plan = small_plan(
        router.url,
        source=one_call_source(5),
        pace=Pace(concurrency=None),
        arrivals=Arrivals(ArrivalKind.POISSON, rate=1000.0),
    )
    measuring = asyncio.create_task(measure(plan))
    await engine.until(arrived=5)
    engine.release()
    measured = await measuring
    assert all(w.state is WorkflowState.FINISHED for w in measured.records.workflows)
    assert len({w.due_s for w in measured.records.workflows}) == 5


async def test_waiting_for_room_counts_as_latency(router, engine):
    engine.faults.hold = True
    plan = small_plan(
        router.url,
        source=one_call_source(2),
        pace=Pace(concurrency=1),
        arrivals=Arrivals(ArrivalKind.GAMMA, rate=1000.0, burstiness=1.0),
    )
    measuring = asyncio.create_task(measure(plan))
    await engine.until(arrived=1)
    engine.release()
    first, second = (await measuring).records.workflows
    assert second.due_s < first.finished_s <= second.started_s
    assert second.latency_s == second.finished_s - second.due_s


async def test_warm_up_is_kept_out_of_the_numbers(router, engine):
    plan = small_plan(router.url, source=one_call_source(5), pace=Pace(2, warm_up=3))
    measured = await measure(plan)
    assert rows(measured.records)[0]["calls"] == 2
    assert len(measured.records.calls) == 5


async def test_a_time_limit_starts_nothing_more(router, engine):
    plan = small_plan(
        router.url,
        source=one_call_source(1000),
        pace=Pace(concurrency=None, limit_s=0.3),
        arrivals=Arrivals(ArrivalKind.POISSON, rate=20.0),
    )
    measured = await measure(plan)
    assert len(measured.records.workflows) < 40
    assert not measured.records.interrupted
    assert all(workflow.due_s < 0.3 for workflow in measured.records.workflows)


def test_a_warm_up_that_is_all_is_refused():
    with pytest.raises(BadLoad, match="leaves none of 2"):
        small_plan("http://x", source=one_call_source(2), pace=Pace(1, warm_up=2))
