"""LangGraph: one run of a graph is a workflow, its nodes are the agents.

The workflow's id is ``workflow_id`` or ``thread_id`` of the run's configuration where it has one. A
thread ends with each run and becomes active again with the next: routers take it so.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.pregel.main import Pregel

from pbkv.clients.scope import add_agent_source, each_async_step, each_step


def attach() -> None:
    """Change ``stream`` and ``astream``, through which every way to run a graph goes."""
    if getattr(Pregel.stream, "_pbkv", False):
        return
    stream, astream = Pregel.stream, Pregel.astream

    @functools.wraps(stream)
    def stream_in_workflow(self: Any, input: Any, config: Any = None, **options: Any) -> Any:
        return each_step(iter(stream(self, input, config, **options)), _workflow_id(config))

    @functools.wraps(astream)
    def astream_in_workflow(self: Any, input: Any, config: Any = None, **options: Any) -> Any:
        return each_async_step(aiter(astream(self, input, config, **options)), _workflow_id(config))

    stream_in_workflow._pbkv = True  # type: ignore[attr-defined]
    Pregel.stream = stream_in_workflow
    Pregel.astream = astream_in_workflow
    add_agent_source(_node)


def _workflow_id(config: Any) -> str:
    if not isinstance(config, Mapping):
        return ""
    for part in ("metadata", "configurable"):
        for name in ("workflow_id", "thread_id"):
            value = (config.get(part) or {}).get(name)
            if value:
                return str(value)
    return ""


def _node() -> str:
    """The path of nodes from the outermost graph: ``researcher/agent`` in a subgraph."""
    config = var_child_runnable_config.get()
    metadata = (config or {}).get("metadata") or {}
    namespace = str(metadata.get("langgraph_checkpoint_ns") or "")
    # "outer:task-id|inner:task-id"
    path = [part.partition(":")[0] for part in namespace.split("|") if part]
    return "/".join(path) or str(metadata.get("langgraph_node") or "")
