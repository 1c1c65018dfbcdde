"""Names that other systems use for a session or an agent.

They serve clients that were set up for another router. A value that is no valid workflow id is
passed over, never an error: the request would be fine for the system it was written for.

Request ids and ``traceparent`` are never read: they differ from call to call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from router.names import MAX_AGENT_CHARS, MAX_WORKFLOW_CHARS, name_problem

# A subagent's session lives within its parent's: the parent is the workflow.
PARENT_HEADERS = ("x-parent-session-id", "x-dynamo-parent-session-id")
SESSION_HEADERS = (
    "x-session-id",
    "x-session-affinity",
    "x-smg-routing-key",
    "x-dynamo-session-id",
    "x-aibrix-session-key",
    "x-litellm-session-id",
    "x-claude-code-session-id",
    "session-id",
    "thread-id",
)
SESSION_FINAL_HEADER = "x-dynamo-session-final"
BAGGAGE_HEADER = "baggage"

HEADERS = frozenset((*PARENT_HEADERS, *SESSION_HEADERS, SESSION_FINAL_HEADER, BAGGAGE_HEADER))

_BODY_PATHS = (
    ("session_id",),
    ("session_params", "id"),
    ("program_id",),
    ("nvext", "agent_hints", "session_id"),
    ("metadata", "workflow_id"),
    ("metadata", "session_id"),
    ("metadata", "thread_id"),
    ("metadata", "conversation_id"),
    ("prompt_cache_key",),
)
_AGENT_PATHS = (("metadata", "agent"), ("metadata", "agent_name"))
_BAGGAGE_CONVERSATION = "gen_ai.conversation.id"
_BAGGAGE_AGENT = "gen_ai.agent.name"


def find_session(headers: Mapping[str, bytes], body: Mapping[str, Any]) -> tuple[str, str] | None:
    """The session's id and the name under which it was found."""
    for value, source in _sessions(headers, body):
        if isinstance(value, str) and name_problem(value, MAX_WORKFLOW_CHARS) is None:
            return value, source
    return None


def find_agent(headers: Mapping[str, bytes], body: Mapping[str, Any]) -> str | None:
    """The agent's name."""
    for path in _AGENT_PATHS:
        value = _at(body, path)
        if isinstance(value, str) and name_problem(value, MAX_AGENT_CHARS) is None:
            return value
    value = _baggage(headers).get(_BAGGAGE_AGENT)
    if value is not None and name_problem(value, MAX_AGENT_CHARS) is None:
        return value
    return None


def is_final(headers: Mapping[str, bytes], source: str) -> bool:
    """Whether the session that was found under ``source`` says that it ends."""
    # Of a subagent only its own session ends, not the workflow it belongs to.
    return source not in PARENT_HEADERS and _text(headers, SESSION_FINAL_HEADER) in ("true", "1")


def _sessions(headers: Mapping[str, bytes], body: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for name in (*PARENT_HEADERS, *SESSION_HEADERS):
        if name in headers:
            yield _text(headers, name), name
    for path in _BODY_PATHS:
        if path[0] in body:
            yield _at(body, path), ".".join(path)
    if BAGGAGE_HEADER in headers:
        yield _baggage(headers).get(_BAGGAGE_CONVERSATION), BAGGAGE_HEADER
    yield body.get("user"), "user"


def _at(body: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = body
    for step in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def _text(headers: Mapping[str, bytes], name: str) -> str | None:
    raw = headers.get(name)
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _baggage(headers: Mapping[str, bytes]) -> dict[str, str]:
    """Members of the W3C baggage header; values are percent-encoded there, properties dropped."""
    members: dict[str, str] = {}
    for member in (_text(headers, BAGGAGE_HEADER) or "").split(","):
        name, equals, value = member.partition(";")[0].partition("=")
        if equals:
            members.setdefault(name.strip(), unquote(value.strip()))
    return members
