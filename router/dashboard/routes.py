"""``/dashboard`` and the counts it draws, ``/v1/activity``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from router.dashboard.document import Document
from router.dashboard.summary import summarize
from router.serving import Serving


def dashboard_routes(serving: Serving) -> APIRouter:
    """The routes, working on ``serving``. The page itself holds nothing and needs no API key."""
    routes = APIRouter(tags=["dashboard"])
    document = Document.assemble()

    @routes.get("/dashboard")
    async def dashboard() -> Response:
        return Response(document.body, headers=document.headers, media_type="text/html")

    @routes.get("/v1/activity")
    async def activity(request: Request) -> dict[str, Any]:
        serving.auth.tenant(request.scope["headers"])
        return summarize(await serving.activity.seen())

    return routes
