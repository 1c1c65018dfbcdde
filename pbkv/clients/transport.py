"""Puts workflow and agent on the calls of every HTTPX client of the process, of httpx and httpx2.

OpenAI's library, and all that builds on it, sends with one of them.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import json
from collections.abc import Callable, Iterable
from typing import Any

from pbkv.clients.ending import Router
from pbkv.clients.names import MAX_AGENT_CHARS, sendable
from pbkv.clients.scope import Workflow, current_agent, current_workflow

WORKFLOW_HEADER = "X-Workflow-ID"
AGENT_HEADER = "X-Agent-Name"
REPLICA_HEADER = "X-PBKV-Replica"

_LIBRARIES = ("httpx", "httpx2")
_PATHS = ("/chat/completions", "/completions", "/embeddings", "/responses")
_MARK = "_pbkv_tagged"


class _Rules:
    """Which calls are tagged. One per process, as are the classes that are changed."""

    origins: tuple[str, ...] = ()
    agent_by_prompt: bool = False


def tag_clients(origins: Iterable[str] = (), *, agent_by_prompt: bool = False) -> None:
    """Change ``send`` of the client classes; again is only to change the rules.

    ``origins``: tag only calls to URLs that begin so; empty is all that look like OpenAI's.
    ``agent_by_prompt``: an agent without a name is called after a hash of its system message.
    """
    _Rules.origins = tuple(origin.rstrip("/") for origin in origins) or _Rules.origins
    _Rules.agent_by_prompt = _Rules.agent_by_prompt or agent_by_prompt
    for name in _LIBRARIES:
        if importlib.util.find_spec(name) is not None:
            library = importlib.import_module(name)
            _change(library.Client, _sending)
            _change(library.AsyncClient, _sending_async)


def _change(client: Any, wrap: Callable[[Any], Any]) -> None:
    if not getattr(client.send, _MARK, False):
        client.send = wrap(client.send)
        setattr(client.send, _MARK, True)


def _sending(original: Any) -> Any:
    @functools.wraps(original)
    def send(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        workflow = _tag(request)
        response = original(self, request, *args, **options)
        _learn(workflow, request, response)
        return response

    return send


def _sending_async(original: Any) -> Any:
    @functools.wraps(original)
    async def send(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        workflow = _tag(request)
        response = await original(self, request, *args, **options)
        _learn(workflow, request, response)
        return response

    return send


def _tag(request: Any) -> Workflow | None:
    """Add the headers that the application has not set itself."""
    workflow = current_workflow()
    if workflow is None or request.method != "POST" or not request.url.path.endswith(_PATHS):
        return None
    if _Rules.origins and not str(request.url).startswith(_Rules.origins):
        return None
    if WORKFLOW_HEADER in request.headers:
        return None
    added = {WORKFLOW_HEADER: workflow.workflow_id}
    agent = current_agent() or (_prompt_name(request) if _Rules.agent_by_prompt else "")
    if agent and AGENT_HEADER not in request.headers:
        added[AGENT_HEADER] = sendable(agent, MAX_AGENT_CHARS)
    # As bytes: by name, only ASCII could be added to headers that are all ASCII.
    raw = [(name.encode(), value.encode()) for name, value in added.items() if value]
    request.headers = type(request.headers)([*request.headers.raw, *raw])
    return workflow


def _learn(workflow: Workflow | None, request: Any, response: Any) -> None:
    """Remember a router of ours: only it is told of the workflow's end."""
    if workflow is None or REPLICA_HEADER not in response.headers:
        return
    url = str(request.url).partition("?")[0]
    base = next(url.removesuffix(path) for path in _PATHS if url.endswith(path))
    authorization = request.headers.get("Authorization", "")
    workflow.answered_by(Router(base.removesuffix("/v1"), authorization))


def _prompt_name(request: Any) -> str:
    """The same name for all calls with the same system message; empty without one."""
    try:
        messages = json.loads(request.content)["messages"]
        first = next(m for m in messages if m["role"] in ("system", "developer"))
    except (ValueError, KeyError, TypeError, StopIteration, RuntimeError):
        return ""
    text = json.dumps(first["content"], sort_keys=True)
    return f"agent-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"
