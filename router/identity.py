"""Which workflow and agent a request belongs to.

First match wins, for each of id, agent and end by itself: our headers, our body field, the names
of other systems, and for the id at last a hash of how the conversation begins. Ids are compared
whole. A malformed value under one of our own names is an error; see :mod:`router.dialects` for
the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from pbkv.invocation import UNNAMED_AGENT
from router import dialects
from router.error_shape import first_problem
from router.errors import InvalidRequest
from router.names import MAX_AGENT_CHARS, MAX_WORKFLOW_CHARS, name_problem

WORKFLOW_HEADER = "x-workflow-id"
AGENT_HEADER = "x-agent-name"
END_HEADER = "x-workflow-end"
APPLICATION_HEADER = "x-application-name"
BODY_FIELD = "workflow"
ANONYMOUS = "anonymous"

_OWN_HEADERS = frozenset((WORKFLOW_HEADER, AGENT_HEADER, END_HEADER, APPLICATION_HEADER))
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_SYSTEM_ROLES = ("system", "developer")
_PROMPT_START_CHARS = 512
_PROMPT_START_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose call a request is. ``source`` is the name under which the id was found.

    ``application`` is for traces alone, empty if the client does not say.
    """

    workflow_id: str
    agent: str
    end: bool
    source: str
    application: str = ""


class WorkflowField(BaseModel):
    """The body field ``workflow``."""

    model_config = ConfigDict(strict=True, extra="forbid")

    id: str | None = None
    agent: str | None = None
    end: bool | None = None


def identify(
    raw_headers: Iterable[tuple[bytes, bytes]], body: Mapping[str, Any], tenant: str
) -> Identity:
    """Read a request's identity; ``raw_headers`` have lower-case names, as in ASGI.

    Never mutates ``body``. Raises :class:`InvalidRequest`.
    """
    headers = _known_headers(raw_headers)
    field = _body_field(body)
    agent = (
        _own_header(headers, AGENT_HEADER, MAX_AGENT_CHARS)
        or _own_value(field.agent, "workflow.agent", MAX_AGENT_CHARS)
        or dialects.find_agent(headers, body)
        or UNNAMED_AGENT
    )
    application = _own_header(headers, APPLICATION_HEADER, MAX_AGENT_CHARS) or ""
    end = _end_header(headers)
    if end is None:
        end = field.end
    workflow_id = _own_header(headers, WORKFLOW_HEADER, MAX_WORKFLOW_CHARS)
    if workflow_id is not None:
        return Identity(workflow_id, agent, bool(end), WORKFLOW_HEADER, application)
    workflow_id = _own_value(field.id, "workflow.id", MAX_WORKFLOW_CHARS)
    if workflow_id is not None:
        return Identity(workflow_id, agent, bool(end), BODY_FIELD, application)
    session = dialects.find_session(headers, body)
    if session is not None:
        if end is None:
            end = dialects.is_final(headers, session[1])
        return Identity(session[0], agent, bool(end), session[1], application)
    return Identity(anonymous_id(body, tenant), agent, bool(end), ANONYMOUS, application)


def anonymous_id(body: Mapping[str, Any], tenant: str) -> str:
    """The same id for all calls of one conversation: what it begins with does not change."""
    start = orjson.dumps([tenant, _beginning(body)])
    return f"anon-{blake2b(start, digest_size=16).hexdigest()}"


def _beginning(body: Mapping[str, Any]) -> list[Any]:
    """System messages and the first user message; of a plain prompt, its first part."""
    messages = body.get("messages", body.get("input"))
    if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
        beginning: list[Any] = [body.get("instructions")]
        for message in messages:
            beginning.append([message.get("role"), message.get("content")])
            if message.get("role") not in _SYSTEM_ROLES:
                break
        return beginning
    prompt = body.get("prompt", messages)
    if isinstance(prompt, str):
        prompt = prompt[:_PROMPT_START_CHARS]
    elif isinstance(prompt, list):
        prompt = prompt[:_PROMPT_START_TOKENS]
    return [body.get("instructions"), prompt]


def _known_headers(raw_headers: Iterable[tuple[bytes, bytes]]) -> dict[str, bytes]:
    known: dict[str, bytes] = {}
    for raw_name, value in raw_headers:
        name = raw_name.decode("latin-1")
        if name in _OWN_HEADERS:
            if known.get(name, value) != value:
                raise InvalidRequest(f"header {name} is given twice with different values")
            known[name] = value
        elif name in dialects.HEADERS:
            known.setdefault(name, value)
    return known


def _own_header(headers: Mapping[str, bytes], name: str, limit: int) -> str | None:
    raw = headers.get(name)
    if raw is None:
        return None
    try:
        value = raw.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"header {name} is not UTF-8") from None
    return _own_value(value, f"header {name}", limit)


def _own_value(value: str | None, where: str, limit: int) -> str | None:
    if value is None:
        return None
    problem = name_problem(value, limit)
    if problem is not None:
        raise InvalidRequest(f"{where} {problem}")
    return value


def _end_header(headers: Mapping[str, bytes]) -> bool | None:
    raw = headers.get(END_HEADER)
    if raw is None:
        return None
    flag = _FLAGS.get(raw.decode("latin-1").lower())
    if flag is None:
        raise InvalidRequest(f"header {END_HEADER} must be true or false")
    return flag


def _body_field(body: Mapping[str, Any]) -> WorkflowField:
    value = body.get(BODY_FIELD)
    if value is None:
        return WorkflowField()
    if not isinstance(value, dict):
        raise InvalidRequest('workflow must be an object {"id", "agent", "end"}')
    try:
        return WorkflowField.model_validate(value)
    except ValidationError as problem:
        raise InvalidRequest(f"workflow.{first_problem(problem.errors())}") from None
