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
from pbkv.policy.index import EvictionIndex, Rank
from pbkv.policy.node import CacheNode
from pbkv.policy.score import WorkflowGain, agent_weights, application_of
from pbkv.policy.tag import Tag
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
        try:
            self._tie = TieRule(settings.tie_rule)
        except ValueError:
            raise SettingsError(
                f"unknown tie rule {settings.tie_rule!r}; choose one of: {', '.join(TieRule)}"
            ) from None
        self._by_age = self._tie is TieRule.OLDEST_WORKFLOW
        super().__init__(settings)
        self._tags.listener = self._tagged
        self._access = make_access_model(settings.access_model, settings.heirs())
        self._gain: dict[str, WorkflowGain] = {}
        self._value: dict[str, WorkflowGain] = {}
        self._calls_left: dict[str, float] = {}

    # ---- the order ----

    def rank(self, tag: Tag) -> Rank:
        # Asked for more often than anything else: properties and calls are spelt out.
        waiting = tag.waiting
        if not tag.active_workflows and not waiting:
            return (0, len(tag.accesses) + tag.forgotten_workflows, 0)
        score = round(tag.score + waiting, _EXACT)
        if score == 0.0:
            return (1, 0.0, 0)
        return (1, score, self._age(tag) if self._by_age else 0)

    def _new_index(self) -> EvictionIndex:
        newest = self._tie is TieRule.NEWEST
        return EvictionIndex(self.rank, newest_first=self._newest_first if newest else None)

    def _newest_first(self, tag: Tag) -> bool:
        waiting = tag.waiting
        if not tag.active_workflows and not waiting:
            return False
        return round(tag.score + waiting, _EXACT) != 0.0

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
        return self.tag_value(node.tag)

    def tag_value(self, tag: Tag) -> float:
        """Value(c) of all nodes of one tag."""
        total = float(tag.waiting)
        for workflow_id, agents in tag.accesses.items():
            gain = self._value.get(workflow_id)
            if gain is not None:
                total += gain.of(agents)
        return round(total, _EXACT)

    def calls_left(self, workflow_id: str) -> float | None:
        """Calls expected of a workflow from its present one on, that one included; None without a
        forecast that goes so far."""
        return self._calls_left.get(workflow_id)

    def _age(self, tag: Tag) -> int:
        """Of the oldest active workflow, the larger the older."""
        orders = [
            workflow.order
            for workflow_id in tag.accesses
            if (workflow := self.workflows.get(workflow_id)) is not None and workflow.active
        ]
        return -min(orders, default=0)

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
        if forecast.remaining_calls is None:
            self._calls_left.pop(workflow_id, None)
        else:
            self._calls_left[workflow_id] = 1.0 + forecast.remaining_calls
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

    def _tagged(self, tag: Tag, workflow_id: str, before: frozenset[str] | None) -> None:
        gain = self._gain.get(workflow_id)
        if gain is not None:
            tag.score += gain.of(tag.accesses[workflow_id])
            if before is not None:
                tag.score -= gain.of(before)

    def _phase_changed(self, transition: Transition) -> None:
        if transition.phase is not WorkflowPhase.ACTIVE:
            self._replace_gain(transition.workflow_id, None)
        super()._phase_changed(transition)

    def _replace_gain(self, workflow_id: str, gain: WorkflowGain | None) -> None:
        """Swap a workflow's forecast for another, or none; only its tags move."""
        old = self._gain.pop(workflow_id, None)
        if gain is None:
            self._value.pop(workflow_id, None)
            self._calls_left.pop(workflow_id, None)
            if old is None:
                return
        else:
            self._gain[workflow_id] = gain
        tags = self._tags.of(workflow_id)
        for tag in tags:
            agents = tag.accesses[workflow_id]
            gained = 0.0 if gain is None else gain.of(agents)
            if not tag.active_workflows:
                # With nobody left to come back, what rounding left over is exactly nothing.
                tag.score = 0.0
            elif len(tag.accesses) == 1:
                tag.score = gained
            else:
                tag.score += gained - (0.0 if old is None else old.of(agents))
        self._rerank(tags)
