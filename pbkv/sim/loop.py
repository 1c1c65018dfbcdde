"""Clock, clients and replicas: a closed loop of scripted workflows.

A discrete-event loop over one heap. It is written out because an event costs it half a microsecond;
a general kernel such as SimPy runs every process as a generator and costs several.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pbkv.sim.client import WorkflowRun
from pbkv.sim.engine import SimulatedEngine
from pbkv.sim.forecasting import SimulatedForecaster
from pbkv.sim.request import SimRequest
from pbkv.sim.result import Measurements
from pbkv.workload import ScriptedWorkflow


@dataclass(slots=True, eq=False)
class SimReplica:
    """An engine in the loop, and how many workflows are pinned to it.

    ``version`` counts the planned ends of steps: an end that was planned anew leaves a stale event.
    """

    name: str
    engine: SimulatedEngine
    forecaster: SimulatedForecaster | None = None
    pinned: int = 0
    version: int = 0


@dataclass(slots=True)
class LoopHooks:
    """Who is told: of a call that was answered, of a workflow that ended, of every finished step,
    in this order."""

    on_call: Callable[[SimRequest], None] = lambda request: None
    on_workflow: Callable[[], None] = lambda: None
    after_step: Callable[[SimulatedEngine], None] = lambda engine: None


class ServingLoop:
    """Runs scripts in order, each on the replica that ``place`` names: ``concurrency`` at a time,
    or with ``starts_s`` one at each of these times.

    ``runs`` holds the workflows under way, by id.
    """

    def __init__(
        self,
        scripts: Iterable[ScriptedWorkflow],
        place: Callable[[WorkflowRun], SimReplica],
        *,
        concurrency: int,
        page_size: int,
        max_new_tokens: int | None,
        hooks: LoopHooks,
        starts_s: Iterable[float] | None = None,
    ) -> None:
        self.now_s = 0.0
        self.measured = Measurements()
        self.runs: dict[str, WorkflowRun] = {}
        self._scripts = iter(scripts)
        self._starts_s = None if starts_s is None else iter(starts_s)
        self._more = True
        self._place = place
        self._concurrency = concurrency
        self._page_size = page_size
        self._max_new_tokens = max_new_tokens
        self._hooks = hooks
        self._pins: dict[str, SimReplica] = {}
        # (time, number, what is due); numbers keep the order of equal times.
        self._events: list[tuple[float, int, _Call | _StepEnd | _Timer]] = []
        self._numbers = 0

    def run(self) -> None:
        """Until every workflow ended."""
        if self._starts_s is None:
            for _ in range(self._concurrency):
                self._start_next()
        else:
            self._await_next()
        events = self._events
        while self.runs or self._more:
            if not events:
                raise RuntimeError(f"{len(self.runs)} workflows wait for nothing")
            now_s = self.now_s = events[0][0]
            changed: dict[str, SimReplica] = {}
            while events and events[0][0] <= now_s:
                event = heapq.heappop(events)[2]
                replica = event.happen(self)
                if replica is not None:
                    changed[replica.name] = replica
            for replica in changed.values():
                if not replica.engine.busy:
                    self._begin(replica)

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Do something at a time, as long as workflows run by then."""
        self._push(time_s, _Timer(action))

    # ---- workflows ----

    def _await_next(self) -> None:
        """Start a workflow at the next of the given times, the one after it then, and so on."""
        start_s = next(self._starts_s or iter(()), None)
        if start_s is None:
            self._more = False
            return

        def start() -> None:
            self._start_next()
            if self._more:
                self._await_next()

        self.at(max(self.now_s, start_s), start)

    def _start_next(self) -> None:
        script = next(self._scripts, None)
        if script is None:
            self._more = False
            return
        run = WorkflowRun(
            script,
            page_size=self._page_size,
            max_new_tokens=self._max_new_tokens,
            now_s=self.now_s,
        )
        self.runs[script.workflow_id] = run
        self._push(self.now_s, _Call(run))

    def call(self, run: WorkflowRun) -> SimReplica:
        """A workflow sends its next call."""
        workflow_id = run.script.workflow_id
        replica = self._pins.get(workflow_id)
        if replica is None:
            replica = self._pins[workflow_id] = self._place(run)
            replica.pinned += 1
        self._numbers += 1
        request = run.next_request(self._numbers, self.now_s)
        ends_s = replica.engine.submit(request, self.now_s)
        if ends_s is not None:
            self._plan_end(replica, ends_s)
        return replica

    def _answered(self, request: SimRequest) -> None:
        self.measured.call(request)
        self._hooks.on_call(request)
        run = self.runs[request.workflow_id]
        if not run.done:
            self._push(self.now_s + run.pause_s, _Call(run))
            return
        del self.runs[request.workflow_id]
        self._pins.pop(request.workflow_id).pinned -= 1
        self.measured.latency_s.append(self.now_s - run.started_s)
        self._hooks.on_workflow()
        if self._starts_s is None:
            self._start_next()

    # ---- steps ----

    def _begin(self, replica: SimReplica) -> None:
        ends_s = replica.engine.begin(self.now_s)
        if replica.forecaster is not None:
            # As in the engine, a forecast is used from the step after the call that it follows.
            replica.forecaster.deliver(self.now_s)
        if ends_s is not None:
            self._plan_end(replica, ends_s)

    def _plan_end(self, replica: SimReplica, ends_s: float) -> None:
        replica.version += 1
        self._push(ends_s, _StepEnd(replica, replica.version))

    def step_over(self, replica: SimReplica) -> None:
        """The step of a replica is over."""
        for request in replica.engine.finish(self.now_s):
            self._answered(request)
        self._hooks.after_step(replica.engine)

    def _push(self, time_s: float, event: _Call | _StepEnd | _Timer) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (time_s, self._numbers, event))


@dataclass(slots=True, eq=False)
class _Call:
    run: WorkflowRun

    def happen(self, loop: ServingLoop) -> SimReplica:
        return loop.call(self.run)


@dataclass(slots=True, eq=False)
class _StepEnd:
    replica: SimReplica
    version: int

    def happen(self, loop: ServingLoop) -> SimReplica | None:
        if self.version != self.replica.version:
            return None
        loop.step_over(self.replica)
        return self.replica


@dataclass(slots=True, eq=False)
class _Timer:
    action: Callable[[], None] = field(repr=False)

    def happen(self, loop: ServingLoop) -> None:
        self.action()
