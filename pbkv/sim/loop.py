"""Clients and replicas: scripted workflows in a closed or an open loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pbkv.sim.client import WorkflowRun
from pbkv.sim.clock import Clock
from pbkv.sim.engine import SimulatedEngine
from pbkv.sim.forecasting import SimulatedForecaster
from pbkv.sim.request import SimRequest
from pbkv.sim.result import Measurements
from pbkv.workload import ScriptedWorkflow


@dataclass(slots=True, eq=False)
class SimReplica:
    """An engine in the loop, and how many workflows are pinned to it.

    ``version`` counts the planned ends of steps: an end that was planned anew leaves a stale one.
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
        self._clock = Clock()
        self._requests = 0
        self._touched: dict[str, SimReplica] = {}

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        return self._clock.now_s

    def run(self) -> None:
        """Until every workflow ended."""
        if self._starts_s is None:
            for _ in range(self._concurrency):
                self._start_next()
        else:
            self._await_next()
        while self.runs or self._more or self._touched:
            if not self._clock.step():
                raise RuntimeError(f"{len(self.runs)} workflows wait for nothing")

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Do something at a time, as long as workflows run by then."""
        self._clock.at(time_s, action)

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
        self.at(self.now_s, lambda: self._call(run))

    def _call(self, run: WorkflowRun) -> None:
        """A workflow sends its next call."""
        workflow_id = run.script.workflow_id
        replica = self._pins.get(workflow_id)
        if replica is None:
            replica = self._pins[workflow_id] = self._place(run)
            replica.pinned += 1
        self._requests += 1
        request = run.next_request(self._requests, self.now_s)
        ends_s = replica.engine.submit(request, self.now_s)
        if ends_s is not None:
            self._plan_end(replica, ends_s)
        self._touch(replica)

    def _answered(self, request: SimRequest) -> None:
        self.measured.call(request)
        self._hooks.on_call(request)
        run = self.runs[request.workflow_id]
        if not run.done:
            self.at(self.now_s + run.pause_s, lambda: self._call(run))
            return
        del self.runs[request.workflow_id]
        self._pins.pop(request.workflow_id).pinned -= 1
        self.measured.latency_s.append(self.now_s - run.started_s)
        self._hooks.on_workflow()
        if self._starts_s is None:
            self._start_next()

    # ---- steps ----

    def _touch(self, replica: SimReplica) -> None:
        """Something happened to a replica: once all has that is due now, it may begin a step."""
        if not self._touched:
            self._clock.when_settled(self._begin_steps)
        self._touched[replica.name] = replica

    def _begin_steps(self) -> None:
        touched, self._touched = self._touched, {}
        for replica in touched.values():
            if not replica.engine.busy:
                self._begin(replica)

    def _begin(self, replica: SimReplica) -> None:
        ends_s = replica.engine.begin(self.now_s)
        if replica.forecaster is not None:
            # As in the engine, a forecast is used from the step after the call that it follows.
            replica.forecaster.deliver(self.now_s)
        if ends_s is not None:
            self._plan_end(replica, ends_s)

    def _plan_end(self, replica: SimReplica, ends_s: float) -> None:
        replica.version += 1
        version = replica.version
        self.at(ends_s, lambda: self._end_step(replica, version))

    def _end_step(self, replica: SimReplica, version: int) -> None:
        """The step of a replica is over, unless its end was planned anew since."""
        if version != replica.version:
            return
        for request in replica.engine.finish(self.now_s):
            self._answered(request)
        self._hooks.after_step(replica.engine)
        self._touch(replica)
