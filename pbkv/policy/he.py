"""Hierarchical eviction (paper 4.2.3): retired cache first, then the lowest lookahead score."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pbkv.errors import SettingsError
from pbkv.events import EventKind, WorkflowEvent
from pbkv.forecast import Forecast
from pbkv.invocation import Invocation
from pbkv.policy.access_model import make_access_model
from pbkv.policy.base import EvictionPolicy, EvictionReason
from pbkv.policy.index import Priority
from pbkv.policy.node import CacheNode
from pbkv.policy.score import WorkflowGain, agent_weights, application_of
from pbkv.settings import PolicySettings
from pbkv.workflow import Transition, WorkflowPhase

_EXACT = 9
"""Decimal places of a score that count: sums in another order must still tie."""


class TieRule(StrEnum):
    """Which of equally scored active nodes goes first."""

    RECENCY = "recency"
    """The one accessed longest ago, as in LRU. Many workflows with equal scores then evict each
    other in turn, a cyclic scan."""
    NEWEST = "newest"
    """The one accessed last, which breaks the cycle."""
    OLDEST_WORKFLOW = "oldest-workflow"
    """That of the youngest workflow: the oldest ones are finished first."""


class HePolicy(EvictionPolicy):
    """Evicts retired cache first, then active cache by ascending Score(c), eq. (2).

    Without forecasts all scores are 0 and the order is exactly that of ``lae``: the tie rule only
    orders nodes that a forecast speaks for. A forecast is dropped when its workflow calls again,
    since it spoke of steps that have begun.
    """

    name = "he"
    uses_forecasts = True

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        self._access = make_access_model(settings.access_model, settings.heirs())
        self._gain: dict[str, WorkflowGain] = {}
        self._value: dict[str, WorkflowGain] = {}
        try:
            self._tie = TieRule(settings.tie_rule)
        except ValueError:
            raise SettingsError(
                f"unknown tie rule {settings.tie_rule!r}; choose one of: {', '.join(TieRule)}"
            ) from None
        self._breaks_ties = self._tie is not TieRule.RECENCY

    # ---- the order ----

    def priority(self, node: CacheNode) -> Priority:
        # Asked for more often than anything else: properties and calls are spelt out.
        waiting = node.waiting
        if not node.active_workflows and not waiting:
            return (0, node.num_workflows, 0, node.last_access_s)
        score = round(node.score + waiting, _EXACT)
        if score == 0.0:
            return (1, 0.0, 0, node.last_access_s)
        return (1, score, self._tie_key(node) if self._breaks_ties else 0.0, node.last_access_s)

    def score(self, node: CacheNode) -> float:
        """Score(c), plus 1 for every request already waiting whose path holds the node: its next
        access is sure."""
        return round(node.score + node.waiting, _EXACT)

    def explain(self, node: CacheNode) -> EvictionReason:
        if node.retired and not node.waiting:
            return EvictionReason.RETIRED
        return EvictionReason.SCORE if self.score(node) > 0.0 else EvictionReason.RECENCY

    def value(self, node: CacheNode) -> float:
        """Value(c), eq. (1): the expected touches of the node by the next step of its workflows."""
        total = float(node.waiting)
        for workflow_id, agents in node.accesses.items():
            gain = self._value.get(workflow_id)
            if gain is not None:
                total += gain.of(agents)
        return round(total, _EXACT)

    def remaining_calls(self, workflow_id: str) -> float | None:
        """The calls that a workflow's forecast expects within K steps, later ones discounted by
        gamma as in eq. (2); None without a forecast.

        It is the Score that the workflow gives to a node which every agent touches.
        """
        gain = self._gain.get(workflow_id)
        return None if gain is None else sum(gain.weights.values())

    def _tie_key(self, node: CacheNode) -> float:
        if self._tie is TieRule.NEWEST:
            return -node.last_access_s
        orders = [
            workflow.order
            for workflow_id in node.accesses
            if (workflow := self.workflows.get(workflow_id)) is not None and workflow.active
        ]
        return -float(min(orders, default=0))

    # ---- what changes it ----

    def on_forecast(self, forecast: Forecast) -> None:
        workflow_id = forecast.workflow_id
        if not self.workflows.is_active(workflow_id):
            return
        application = application_of(workflow_id)
        steps, gamma = self.settings.lookahead_steps, self.settings.gamma
        weights = agent_weights(forecast, gamma, steps)
        next_step = forecast.step_probabilities[0, :-1].tolist()
        one_step = dict(zip(forecast.agents, next_step, strict=True))
        self._value[workflow_id] = WorkflowGain(application, one_step, self._access)
        self._replace_gain(workflow_id, WorkflowGain(application, weights, self._access))
        self._settle()

    def on_event(self, event: WorkflowEvent) -> None:
        if event.kind is EventKind.INVOKE:
            self._replace_gain(event.workflow_id, None)
        super().on_event(event)

    def on_call_finished(self, path: Sequence[CacheNode], invocation: Invocation) -> None:
        workflow_id = invocation.workflow_id
        known = (
            (node, node.accesses[workflow_id])
            for node in self._nodes_of.get(workflow_id, {}).values()
        )
        touched = {node.node_id for node in path}
        self._access.observe(application_of(workflow_id), invocation.agent, known, touched)
        super().on_call_finished(path, invocation)

    def _tagged(self, node: CacheNode, workflow_id: str, before: frozenset[str] | None) -> None:
        gain = self._gain.get(workflow_id)
        if gain is not None:
            node.score += gain.of(node.accesses[workflow_id])
            if before is not None:
                node.score -= gain.of(before)
        super()._tagged(node, workflow_id, before)

    def _phase_changed(self, transition: Transition) -> None:
        if transition.phase is not WorkflowPhase.ACTIVE:
            self._replace_gain(transition.workflow_id, None)
        super()._phase_changed(transition)

    def _replace_gain(self, workflow_id: str, gain: WorkflowGain | None) -> None:
        """Swap a workflow's forecast for another, or none; only its nodes move."""
        old = self._gain.pop(workflow_id, None)
        if gain is None:
            self._value.pop(workflow_id, None)
            if old is None:
                return
        else:
            self._gain[workflow_id] = gain
        changes: dict[frozenset[str], float] = {}
        fallen: list[CacheNode] = []
        for node in self._nodes_of.get(workflow_id, {}).values():
            agents = node.accesses[workflow_id]
            change = changes.get(agents)
            if change is None:
                change = changes[agents] = _difference(gain, old, agents)
            if change:
                # With nobody left to come back, what rounding left over is exactly nothing.
                node.score = node.score + change if node.active_workflows else 0.0
            if change < 0.0:
                fallen.append(node)
        # A rise, the eviction order finds by itself.
        for index in self._indexes:
            index.all_fell(fallen)


def _difference(
    new: WorkflowGain | None, old: WorkflowGain | None, agents: frozenset[str]
) -> float:
    """What a node that ``agents`` accessed gains when ``old`` makes way for ``new``."""
    return (0.0 if new is None else new.of(agents)) - (0.0 if old is None else old.of(agents))
