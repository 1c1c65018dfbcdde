"""The application: routes, errors and the background refresh, put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.routing import Route

from pbkv import __version__
from router.call import ENGINE_PATHS
from router.completions import EngineEndpoint
from router.dashboard.routes import dashboard_routes
from router.error_shape import install_handlers
from router.fleet import fleet_routes
from router.observe import Observer
from router.serving import Serving
from router.settings import RouterSettings
from router.targets import TARGETS_PATH, target_routes
from router.workflows import workflow_routes

_OTHER_PATHS = (
    "/v1/workflows",
    "/v1/models",
    "/v1/replicas",
    TARGETS_PATH,
    "/v1/activity",
    "/dashboard",
    "/health",
    "/ready",
    "/metrics",
)


def create_app(settings: RouterSettings) -> FastAPI:
    """A router. It looks at Redis once before it serves, and serves without it too."""
    serving = Serving.build(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with serving.upstream:
            await serving.lifecycle.refresh()
            kept = (
                asyncio.create_task(serving.lifecycle.keep_fresh(settings.refresh_s)),
                asyncio.create_task(serving.activity.keep()),
            )
            serving.traces.start()
            try:
                yield
            finally:
                for task in kept:
                    task.cancel()
                await asyncio.gather(*kept, return_exceptions=True)
                await serving.lifecycle.flush_before_exit()
                await serving.traces.close()
                await serving.link.close()

    app = FastAPI(
        title="PBKV router",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.serving = serving
    install_handlers(app)
    endpoint = EngineEndpoint(serving)
    for path in ENGINE_PATHS:
        app.router.routes.append(Route(path, endpoint, methods=["POST"]))
    app.include_router(workflow_routes(serving))
    app.include_router(fleet_routes(serving))
    app.include_router(target_routes(serving))
    app.include_router(dashboard_routes(serving))
    app.add_middleware(
        Observer,
        metrics=serving.metrics,
        paths=frozenset((*ENGINE_PATHS, *_OTHER_PATHS)),
        max_header_bytes=settings.max_header_bytes,
    )
    return app
