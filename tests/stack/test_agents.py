"""The programs of the agent frameworks on the whole stack: nothing of them or of it is faked."""

from __future__ import annotations

from collections import Counter

import pytest

from loadgen.measure import measure
from loadgen.programs.wire import FRAMEWORKS
from loadgen.records import WorkflowState
from loadgen.source import load_source
from pbkv.keys import TRACES_KEY
from pbkv.trace import InvocationRecord, RecordKind
from pbkv.trace.wire import from_fields
from tests.contract.loadgen.plans import programs, small_plan
from tests.stack.running import RunningStack
from tests.waiting import wait_until

WORKFLOWS = 2
SCALE = 0.02


@pytest.mark.parametrize("workload", sorted(FRAMEWORKS))
async def test_every_call_says_whose_it_is_and_every_workflow_ends(
    stack: RunningStack, workload: str
) -> None:
    source = load_source(workload, WORKFLOWS, seed=3, scale=SCALE)
    plan = small_plan(stack.urls[0], source=source, prefix=workload)
    measured = await measure(plan, open_runner=programs(plan, workload, stack.urls[0], SCALE))

    expected = {f"{workload}-{script.workflow_id}": script for script in source.scripts}
    states = {w.workflow_id: w.state for w in measured.records.workflows}
    assert states == dict.fromkeys(expected, WorkflowState.FINISHED), measured.records.calls
    with stack.redis as client:

        def served() -> list[InvocationRecord]:
            """What the router saw of these workflows, and of no one in particular."""
            records = [from_fields(fields) for _, fields in client.xrange(TRACES_KEY)]
            return [r for r in records if r.workflow in expected or not r.agent]

        def ended() -> bool:
            keys = [f"pbkv:workflow:default:{workflow_id}" for workflow_id in expected]
            return all(client.hget(key, "state") == "retired" for key in keys)

        wait_until(ended)
        calls = sum(len(script.calls) for script in source.scripts)
        wait_until(lambda: sum(r.kind is RecordKind.CALL for r in served()) >= calls)
        made = [record for record in served() if record.kind is RecordKind.CALL]
    assert Counter((r.workflow, r.agent) for r in made) == Counter(
        (workflow_id, call.agent)
        for workflow_id, script in expected.items()
        for call in script.calls
    )
    assert [r for r in made if r.error or not r.prompt_tokens] == []
    told = {(c.workflow_id, c.prompt_tokens, c.cached_tokens) for c in measured.records.calls}
    assert told == {(r.workflow, r.prompt_tokens, r.cached_tokens) for r in made}
