"""Calls one at a time in a fixed order, so that what is found does not depend on time.

What two engines find for the same order can be compared call by call: the simulator's and a real
one's.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pbkv.sim.client import WorkflowRun
from pbkv.sim.simulate import Simulation, make_replica
from pbkv.workload import ScriptedWorkflow


@dataclass(frozen=True, slots=True)
class ScheduledCall:
    """Call number ``step``, from 0, of a workflow."""

    script: ScriptedWorkflow
    step: int

    @property
    def last(self) -> bool:
        return self.step + 1 == len(self.script.calls)


@dataclass(frozen=True, slots=True)
class FoundTokens:
    """Tokens of one prompt that were on the device, and on the host."""

    prompt: int
    device: int
    host: int


def interleaved(
    scripts: Iterable[ScriptedWorkflow], *, at_a_time: int, seed: int = 0
) -> Iterator[ScheduledCall]:
    """All calls, of ``at_a_time`` workflows mixed at random; who ends makes room for the next."""
    rng = random.Random(f"order/{seed}")
    waiting = iter(scripts)
    active: list[ScheduledCall] = []
    while True:
        while len(active) < at_a_time and (script := next(waiting, None)) is not None:
            active.append(ScheduledCall(script, 0))
        if not active:
            return
        place = rng.randrange(len(active))
        call = active[place]
        yield call
        if call.last:
            del active[place]
        else:
            active[place] = ScheduledCall(call.script, call.step + 1)


def simulate_sequence(
    simulation: Simulation, scripts: Sequence[ScriptedWorkflow], calls: Iterable[ScheduledCall]
) -> tuple[list[FoundTokens], dict[str, int]]:
    """Serve ``calls`` one after the other: what each found, and the tokens evicted by reason."""
    replica = make_replica(simulation, scripts, None, name="engine")
    engine = replica.engine
    runs: dict[str, WorkflowRun] = {}
    found = []
    now_s = 0.0
    for number, call in enumerate(calls):
        workflow_id = call.script.workflow_id
        run = runs.get(workflow_id)
        if run is None:
            run = runs[workflow_id] = WorkflowRun(
                call.script,
                page_size=simulation.limits.page_size,
                max_new_tokens=simulation.max_new_tokens,
                now_s=now_s,
            )
        request = run.next_request(number, now_s)
        engine.submit(request, now_s)
        while True:
            ends_s = engine.begin(now_s)
            if replica.forecaster is not None:
                replica.forecaster.deliver(now_s)
            if ends_s is None:
                break
            now_s = ends_s
            engine.finish(now_s)
        found.append(
            FoundTokens(
                request.prompt_tokens, request.cached_device_tokens, request.cached_host_tokens
            )
        )
        if call.last:
            del runs[workflow_id]
    return found, {str(reason): tokens for reason, tokens in engine.tree.evicted.items()}
