"""``/v1/workflows``: start, look at and end workflows explicitly."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import uuid4

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, ValidationError

from router.call import parse_object, read_body
from router.error_shape import first_problem
from router.errors import (
    InvalidRequest,
    NoReplicaReady,
    RedisAway,
    StateUnavailable,
    UnknownWorkflow,
)
from router.names import MAX_WORKFLOW_CHARS, name_problem
from router.pins import LocalPin, PinStore, WorkflowKey
from router.serving import Serving

_MAX_BODY_BYTES = 64 * 1024
_MAX_METADATA_BYTES = 4096
_MAX_LISTED = 1000
_COUNTS = ("epoch", "step", "prompt_tokens", "cached_tokens", "completion_tokens")
_TIMES = ("created_at", "last_seen")


class WorkflowStart(BaseModel):
    """Body of an explicit start."""

    model_config = ConfigDict(strict=True, extra="forbid")

    id: str | None = None
    metadata: dict[str, Any] | None = None


def workflow_routes(serving: Serving) -> APIRouter:
    """The routes, working on ``serving``."""
    routes = APIRouter(prefix="/v1/workflows", tags=["workflows"])

    @routes.post("", status_code=201)
    async def start_workflow(request: Request) -> dict[str, str]:
        tenant = serving.auth.tenant(request.scope["headers"])
        start = _parse_start(
            await read_body(
                request.stream(), request.headers.get("content-length"), _MAX_BODY_BYTES
            )
        )
        models = serving.directory.models(ready_only=True) or serving.directory.models()
        if not models:
            raise NoReplicaReady(
                "no replica is ready", retry_after_s=serving.settings.retry_after_s
            )
        key = WorkflowKey(tenant, start.id or f"wf-{uuid4().hex}")
        metadata = orjson.dumps(start.metadata).decode() if start.metadata is not None else ""
        pinned = await serving.lifecycle.call(key, "", models[0], counts=False, metadata=metadata)
        return {"id": key.workflow_id, "replica": pinned.replica.id, "state": "active"}

    @routes.get("")
    async def list_workflows(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=_MAX_LISTED)] = 100,
        state: Literal["active", "retired"] | None = None,
        search: Annotated[str, Query(max_length=MAX_WORKFLOW_CHARS)] = "",
    ) -> dict[str, Any]:
        tenant = serving.auth.tenant(request.scope["headers"])
        chosen = _Choice(limit, state, search)
        try:
            latest, total = await serving.link.ask(lambda: chosen.from_store(serving.store, tenant))
        except RedisAway:
            latest, total = chosen.from_memory(serving.memory.of_tenant(tenant))
        return {"object": "list", "data": latest, "total": total}

    @routes.get("/{workflow_id:path}")
    async def get_workflow(request: Request, workflow_id: str) -> dict[str, Any]:
        key = _key(serving, request, workflow_id)
        try:
            fields = await serving.link.ask(lambda: serving.store.read(key))
        except RedisAway:
            pin = serving.memory.get(key)
            if pin is None:
                raise StateUnavailable(
                    "the state of workflows is out of reach",
                    retry_after_s=serving.settings.retry_after_s,
                ) from None
            return _view_of_memory(workflow_id, pin)
        if fields is None:
            raise UnknownWorkflow(f"no workflow {workflow_id!r}")
        return _view(workflow_id, fields)

    @routes.delete("/{workflow_id:path}", status_code=204)
    async def end_workflow(request: Request, workflow_id: str) -> Response:
        key = _key(serving, request, workflow_id)
        seq = await serving.lifecycle.end(key)
        if seq is not None:
            serving.traces.add_end(key, seq)
        return Response(status_code=204)

    return routes


def _parse_start(body: bytes) -> WorkflowStart:
    try:
        start = WorkflowStart.model_validate(parse_object(body) if body else {})
    except ValidationError as problem:
        raise InvalidRequest(first_problem(problem.errors())) from None
    problem_words = name_problem(start.id, MAX_WORKFLOW_CHARS) if start.id is not None else None
    if problem_words is not None:
        raise InvalidRequest(f"id {problem_words}")
    if start.metadata is not None:
        try:
            size = len(orjson.dumps(start.metadata))
        except orjson.JSONEncodeError:
            raise InvalidRequest("metadata is nested too deeply") from None
        if size > _MAX_METADATA_BYTES:
            raise InvalidRequest(f"metadata is longer than {_MAX_METADATA_BYTES} bytes")
    return start


def _key(serving: Serving, request: Request, workflow_id: str) -> WorkflowKey:
    tenant = serving.auth.tenant(request.scope["headers"])
    problem = name_problem(workflow_id, MAX_WORKFLOW_CHARS)
    if problem is not None:
        raise InvalidRequest(f"the workflow id {problem}")
    return WorkflowKey(tenant, workflow_id)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which workflows are listed: the ``limit`` seen last of those that fit."""

    limit: int
    state: str | None
    search: str

    async def from_store(self, store: PinStore, tenant: str) -> tuple[list[dict[str, Any]], int]:
        """The views, and how many fit. Raises redis-py's errors."""
        fitting: list[tuple[float, WorkflowKey]] = []
        async for key, fields in store.scan(tenant):
            names = (
                key.workflow_id,
                fields.get("replica", ""),
                *orjson.loads(fields.get("agents", "[]")),
            )
            if self._fits(fields.get("state", ""), names):
                fitting.append((float(fields.get("last_seen", "0")), key))
        latest = heapq.nlargest(self.limit, fitting, key=lambda entry: entry[0])
        keys = [key for _, key in latest]
        found = zip(keys, await store.read_many(keys), strict=True)
        return [_view(key.workflow_id, fields) for key, fields in found if fields], len(fitting)

    def from_memory(
        self, pins: Iterable[tuple[WorkflowKey, LocalPin]]
    ) -> tuple[list[dict[str, Any]], int]:
        """The same of what this router remembers."""
        fitting = [
            (key, pin)
            for key, pin in pins
            if self._fits(pin.state, (key.workflow_id, pin.replica, *pin.agents))
        ]
        latest = heapq.nlargest(self.limit, fitting, key=lambda entry: entry[1].last_seen_s)
        return [_view_of_memory(key.workflow_id, pin) for key, pin in latest], len(fitting)

    def _fits(self, state: str, names: Iterable[str]) -> bool:
        wanted = self.search.casefold()
        return self.state in (None, state) and any(wanted in name.casefold() for name in names)


def _view(workflow_id: str, fields: Mapping[str, str]) -> dict[str, Any]:
    view: dict[str, Any] = {
        "id": workflow_id,
        "object": "workflow",
        "state": fields.get("state", ""),
        "replica": fields.get("replica", ""),
        "agent": fields.get("agent", ""),
        "agents": orjson.loads(fields.get("agents", "[]")),
    }
    view.update((name, int(fields.get(name, "0"))) for name in _COUNTS)
    view.update((name, float(fields.get(name, "0"))) for name in _TIMES)
    if "metadata" in fields:
        view["metadata"] = orjson.loads(fields["metadata"])
    return view


def _view_of_memory(workflow_id: str, pin: LocalPin) -> dict[str, Any]:
    return {
        "id": workflow_id,
        "object": "workflow",
        "state": pin.state,
        "replica": pin.replica,
        "agent": pin.agent,
        "agents": pin.agents,
        "epoch": pin.epoch,
        "step": pin.step,
        "created_at": pin.created_at_s,
        "last_seen": pin.last_seen_s,
    }
