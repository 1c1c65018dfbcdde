"""The real programs of the frameworks: their calls are the plan's, and none goes unseen."""

import asyncio
import os
import signal

import pytest

from loadgen.measure import measure
from loadgen.programs.runner import open_programs
from loadgen.programs.wire import FRAMEWORKS
from loadgen.records import ErrorKind, WorkflowState
from loadgen.run import Pace
from loadgen.source import load_source
from loadgen.target import Target
from tests.contract.loadgen.plans import program_plan, programs, small_plan
from tests.contract.router.stack import eventually


@pytest.mark.parametrize("workload", sorted(FRAMEWORKS))
async def test_a_program_follows_the_plan_of_its_workload(router, engine, fleet, workload):
    engine.faults.cached_tokens = 5
    plan = small_plan(router.url, source=load_source(workload, 2, seed=3, scale=0.05))
    measured = await measure(plan, open_runner=programs(plan, workload, router.url))
    records = measured.records
    assert [w.state for w in records.workflows] == [WorkflowState.FINISHED] * 2
    for script in plan.source.scripts:
        workflow_id = f"t-{script.workflow_id}"
        made = [r for r in engine.requests if r.invocation["workflow"].endswith(workflow_id)]
        assert [r.invocation["agent"] for r in made] == [call.agent for call in script.calls]
        assert [r.json["max_tokens"] for r in made] == [c.output_tokens for c in script.calls]
        seen = [call for call in records.calls if call.workflow_id == workflow_id]
        assert [call.agent for call in seen] == [call.agent for call in script.calls]
        assert {(call.prompt_tokens, call.cached_tokens) for call in seen} == {(11, 5)}
        assert all(call.error is None and call.ttft_s is not None for call in seen)


async def test_a_process_that_dies_fails_its_workflows_and_those_after_it(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nread plan; echo '{\"ready\": true}'; read start\n")
    python.chmod(0o755)
    plan = small_plan(
        "http://127.0.0.1:1", target=Target.of("http://127.0.0.1:1", model="m"), pace=Pace(1)
    )
    wire = program_plan(plan, "hover", plan.target)
    measured = await measure(
        plan, open_runner=lambda session, target, clock: open_programs(str(python), wire, clock)
    )
    records = measured.records
    assert [w.state for w in records.workflows] == [WorkflowState.FAILED] * 6
    assert [call.error for call in records.calls] == [ErrorKind.PROGRAM] * 6
    assert len({w.workflow_id for w in records.workflows}) == 6


async def test_a_signal_cuts_the_programs_and_keeps_their_calls(router, engine, fleet):
    engine.faults.hold_after_chunks = 1
    plan = small_plan(router.url, source=load_source("hover", 2, seed=3, scale=0.05))
    measuring = asyncio.create_task(measure(plan, open_runner=programs(plan, "hover", router.url)))
    await engine.until(arrived=2)
    os.kill(os.getpid(), signal.SIGINT)
    records = (await measuring).records
    assert records.interrupted
    assert [w.state for w in records.workflows] == [WorkflowState.CUT] * 2
    assert [call.error for call in records.calls] == [ErrorKind.CUT] * 2
    for script in plan.source.scripts:
        name = f"t-{script.workflow_id}"
        await eventually(lambda name=name: retired(fleet, name))


async def retired(fleet, name):
    return (await fleet.workflow(name)).get("state") == "retired"
