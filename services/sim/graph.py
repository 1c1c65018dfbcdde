"""The static graph that KVFlow is given where the user names none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

from pbkv.workload import ScriptedWorkflow


def default_graph(scripts: Iterable[ScriptedWorkflow]) -> str:
    """Which agents follow each anywhere in ``scripts``, as KVFlow's setting: a JSON object.

    For a static workload that is its graph; for a dynamic one it is the best that a static graph
    can say, and more than a user would know.
    """
    graph: dict[str, set[str]] = {}
    for script in scripts:
        agents = [call.agent for call in script.calls]
        for agent in agents:
            graph.setdefault(agent, set())
        for agent, following in pairwise(agents):
            graph[agent].add(following)
    return json.dumps({agent: sorted(graph[agent]) for agent in sorted(graph)})
