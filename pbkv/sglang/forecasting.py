"""Forecasts inside the engine: asked for and picked up by rank 0, applied by all ranks alike.

A call of a workflow (and, for a predictor that wants it, the hidden state of its prompt) goes to
the predictor's thread. A finished forecast rides in the next lifecycle batch, with the number of
the call that it was made after; every rank compares that with its own count and drops it if the
workflow has called again or ended meanwhile. So a late forecast is the same as none.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable

from pbkv.policy import EvictionPolicy
from pbkv.predict.accuracy import LiveAccuracy
from pbkv.predict.worker import ForecastRequest, ForecastWorker, HiddenState, Stamp, StampedForecast
from pbkv.sglang.record import ForecastOutcome, Recorder
from pbkv.sglang.shadow import ShadowForecasts
from pbkv.workflow import Workflow, WorkflowRegistry

MAX_ANNOUNCED = 16_384
"""Requests whose hidden state is still awaited; beyond that the oldest get none."""


class Forecaster:
    """Rank 0's side. It listens to the workflows and is the only one to know the predictor."""

    def __init__(
        self,
        worker: ForecastWorker,
        workflows: WorkflowRegistry,
        recorder: Recorder,
        *,
        steps: int,
        shadow: ShadowForecasts | None = None,
    ) -> None:
        self._worker = worker
        self._shadow = shadow
        self._workflows = workflows
        self._recorder = recorder
        self._accuracy = LiveAccuracy(steps)
        self._announced: OrderedDict[str, tuple[str, Stamp]] = OrderedDict()

    # ---- what happens to workflows ----

    def on_call(self, workflow: Workflow) -> None:
        prefix = tuple(workflow.history)
        self._accuracy.happened(workflow.workflow_id, workflow.calls, prefix[-1])
        self._worker.observe(prefix[:-1], prefix[-1])
        request = ForecastRequest(workflow.workflow_id, workflow.stamp, prefix)
        self._worker.submit(request)
        if self._shadow is not None:
            self._shadow.on_call(workflow, request)

    def on_retire(self, workflow: Workflow) -> None:
        self._worker.drop(workflow.workflow_id)
        self._accuracy.happened(workflow.workflow_id, workflow.calls + 1, None)
        if workflow.history:
            self._worker.observe(tuple(workflow.history), None)
        if self._shadow is not None:
            self._shadow.on_retire(workflow)

    # ---- hidden states ----

    def announce(self, request_id: str, workflow_id: str) -> None:
        """A request is the latest call of its workflow; its hidden state may follow."""
        workflow = self._workflows.get(workflow_id)
        if workflow is None:
            return
        self._announced[request_id] = (workflow_id, workflow.stamp)
        while len(self._announced) > MAX_ANNOUNCED:
            self._announced.popitem(last=False)

    def awaits(self, request_id: str) -> bool:
        return request_id in self._announced

    def take_hidden_state(self, request_id: str, state: HiddenState | None) -> None:
        """The prompt of a request was prefilled; None says that its state could not be captured.

        A workflow that called again meanwhile is forecast from that call.
        """
        announced = self._announced.pop(request_id, None)
        self._recorder.hidden_state(captured=state is not None)
        if announced is None or state is None:
            return
        workflow_id, stamp = announced
        workflow = self._workflows.get(workflow_id)
        if workflow is not None and workflow.active and workflow.stamp == stamp:
            request = ForecastRequest(workflow_id, stamp, tuple(workflow.history), state)
            if self._worker.wants_hidden_states:
                self._worker.submit(request)
            if self._shadow is not None and self._shadow.wants_hidden_states:
                self._shadow.submit(request)

    # ---- forecasts ----

    def collect(self) -> tuple[StampedForecast, ...]:
        """Forecasts finished since the last call. Never blocks."""
        if self._shadow is not None:
            self._shadow.collect()
        return self._worker.collect()

    def applied(self, stamped: StampedForecast) -> None:
        """All ranks now use that forecast."""
        _, call = stamped.stamp
        self._accuracy.made(stamped.forecast, call)

    def publish(self) -> None:
        """Report how good the forecasts in use are, and those of the shadow."""
        for step, accuracy in self._accuracy.by_step():
            self._recorder.forecast_accuracy(step, accuracy)
        for step, error in self._accuracy.calibration_by_step():
            self._recorder.forecast_calibration_error(step, error)
        if self._shadow is None:
            return
        for step, accuracy in self._shadow.accuracy.by_step():
            self._recorder.shadow_accuracy(step, accuracy)
        for step, error in self._shadow.accuracy.calibration_by_step():
            self._recorder.shadow_calibration_error(step, error)


def apply_forecasts(
    policy: EvictionPolicy,
    recorder: Recorder,
    forecaster: Forecaster | None,
    forecasts: Iterable[StampedForecast],
) -> None:
    """Take forecasts into the order, on every rank; late ones are dropped on every rank alike."""
    for stamped in forecasts:
        workflow = policy.workflows.get(stamped.forecast.workflow_id)
        if workflow is None or not workflow.active or workflow.stamp != stamped.stamp:
            recorder.forecast(ForecastOutcome.LATE)
            continue
        start_s = time.perf_counter()
        policy.on_forecast(stamped.forecast)
        recorder.took("score", time.perf_counter() - start_s)
        recorder.forecast(ForecastOutcome.APPLIED)
        if forecaster is not None:
            forecaster.applied(stamped)
