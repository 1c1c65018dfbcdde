"""KVFlow, the paper's rival: steps to execution on a given static graph of agents."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from pbkv.errors import SettingsError
from pbkv.events import EventKind, WorkflowEvent
from pbkv.forecast import Forecast
from pbkv.policy.base import EvictionReason
from pbkv.policy.index import Rank
from pbkv.policy.node import CacheNode
from pbkv.policy.pbkv import PbkvPolicy
from pbkv.policy.tag import Tag
from pbkv.settings import PolicySettings


class KvflowPolicy(PbkvPolicy):
    """Evicts the node whose next use is most steps away, and prefetches what is one step away.

    The distance of a node is the least over its workflows and the agents that accessed it, counted
    on the graph from the agent that the workflow called last. It knows no lifecycle: a workflow
    that ended keeps the distances of its last agent. What no path leads to is infinitely far.
    """

    name = "kvflow"
    # The graph is all it believes: no predictor runs for it, and the queue tells it nothing.
    uses_forecasts = False

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        graph = settings.graph()
        if not graph:
            raise SettingsError(
                "the policy kvflow needs agent_graph, a JSON object from each agent to the list "
                "of agents that may follow it"
            )
        self._steps = {agent: _distances(graph, agent) for agent in graph}

    def steps_to_execution(self, tag: Tag) -> float:
        """Calls until nodes of ``tag`` are used again, at least 1; infinity if they never are."""
        nearest = math.inf
        for workflow_id, agents in tag.accesses.items():
            workflow = self.workflows.get(workflow_id)
            if workflow is not None:
                distances = self._steps.get(workflow.agent, {})
                nearest = min(nearest, *(distances.get(agent, math.inf) for agent in agents))
        return nearest

    def rank(self, tag: Tag) -> Rank:
        return (-self.steps_to_execution(tag),)

    def explain(self, node: CacheNode) -> EvictionReason:
        finite = math.isfinite(self.steps_to_execution(node.tag))
        return EvictionReason.SCORE if finite else EvictionReason.RECENCY

    def tag_value(self, tag: Tag) -> float:
        """What prefetch ranks by: 1 for nodes of the very next agent, else 0."""
        return 1.0 if self.steps_to_execution(tag) == 1.0 else 0.0

    def on_forecast(self, forecast: Forecast) -> None:
        """The graph is all that this policy believes."""

    def on_event(self, event: WorkflowEvent) -> None:
        super().on_event(event)
        if event.kind is EventKind.INVOKE:
            self._rerank(self._tags.of(event.workflow_id))


def _distances(graph: Mapping[str, Sequence[str]], start: str) -> dict[str, float]:
    """Steps from ``start`` to every agent, breadth first; to itself by its shortest loop."""
    distances: dict[str, float] = {}
    frontier = deque((agent, 1.0) for agent in graph.get(start, ()))
    while frontier:
        agent, steps = frontier.popleft()
        if agent not in distances:
            distances[agent] = steps
            frontier.extend((follower, steps + 1.0) for follower in graph.get(agent, ()))
    return distances
