"""A second predictor that forecasts what the first does and never acts: to be judged by its record.

It lives on rank 0. Its forecasts are not broadcast; one that its workflow overtook is dropped, as
it would be if it were in use, so that its accuracy is what the predictor in use is measured by too.
"""

from __future__ import annotations

from pbkv.predict.accuracy import LiveAccuracy
from pbkv.predict.worker import ForecastRequest, ForecastWorker
from pbkv.workflow import Workflow, WorkflowRegistry


class ShadowForecasts:
    """The shadow's thread and its record."""

    def __init__(self, worker: ForecastWorker, workflows: WorkflowRegistry, *, steps: int) -> None:
        self._worker = worker
        self._workflows = workflows
        self.accuracy = LiveAccuracy(steps)

    @property
    def wants_hidden_states(self) -> bool:
        return self._worker.wants_hidden_states

    def on_call(self, workflow: Workflow, request: ForecastRequest) -> None:
        """The workflow made the last call of the request's prefix."""
        self.accuracy.happened(workflow.workflow_id, workflow.calls, request.prefix[-1])
        self._worker.observe(request.prefix[:-1], request.prefix[-1])
        self._worker.submit(request)

    def on_retire(self, workflow: Workflow) -> None:
        """The workflow ended."""
        self._worker.drop(workflow.workflow_id)
        self.accuracy.happened(workflow.workflow_id, workflow.calls + 1, None)
        if workflow.history:
            self._worker.observe(tuple(workflow.history), None)

    def submit(self, request: ForecastRequest) -> None:
        """A hidden state came for the last call."""
        self._worker.submit(request)

    def collect(self) -> None:
        """Note the finished forecasts. Never blocks."""
        for stamped in self._worker.collect():
            workflow = self._workflows.get(stamped.forecast.workflow_id)
            if workflow is not None and workflow.active and workflow.stamp == stamped.stamp:
                self.accuracy.made(stamped.forecast, workflow.calls)
