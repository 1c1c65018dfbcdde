"""What is served and by whom: ``/v1/models``, ``/v1/replicas``, health, readiness, metrics."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from router.errors import NoReplicaReady, UnknownModel
from router.serving import Serving


def fleet_routes(serving: Serving) -> APIRouter:
    """The routes, working on ``serving``. Probes and metrics need no API key."""
    routes = APIRouter()

    @routes.get("/v1/models", tags=["models"])
    async def list_models(request: Request) -> dict[str, Any]:
        serving.auth.tenant(request.scope["headers"])
        return {"object": "list", "data": _models(serving)}

    @routes.get("/v1/models/{model:path}", tags=["models"])
    async def get_model(request: Request, model: str) -> dict[str, Any]:
        serving.auth.tenant(request.scope["headers"])
        models = _models(serving)
        for entry in models:
            if entry["id"] == model:
                return entry
        served = ", ".join(entry["id"] for entry in models)
        raise UnknownModel(f"the model {model[:128]!r} does not exist; served: {served}")

    @routes.get("/v1/replicas", tags=["replicas"])
    async def list_replicas(request: Request) -> dict[str, Any]:
        serving.auth.tenant(request.scope["headers"])
        down = serving.directory.down()
        replicas = [
            {
                **candidate.replica.model_dump(),
                "pinned_workflows": candidate.pinned,
                "reachable": candidate.replica.id not in down,
            }
            for candidate in serving.directory.all()
        ]
        return {"object": "list", "data": replicas, "now": time.time()}

    @routes.get("/health", tags=["probes"])
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get("/ready", tags=["probes"])
    async def ready() -> dict[str, Any]:
        count = len(serving.directory.ready())
        if count == 0:
            raise NoReplicaReady(
                "no replica is ready", retry_after_s=serving.settings.retry_after_s
            )
        return {"status": "ready", "replicas": count}

    @routes.get("/metrics", tags=["probes"])
    async def metrics() -> Response:
        return Response(serving.metrics.render(), media_type=CONTENT_TYPE_LATEST)

    return routes


def _models(serving: Serving) -> list[dict[str, Any]]:
    started_ms: dict[str, int] = {}
    for candidate in serving.directory.ready():
        replica = candidate.replica
        started_ms[replica.model] = min(replica.epoch, started_ms.get(replica.model, replica.epoch))
    return [
        {"id": model, "object": "model", "created": epoch // 1000, "owned_by": "pbkv"}
        for model, epoch in sorted(started_ms.items())
    ]
