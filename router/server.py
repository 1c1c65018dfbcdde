"""Runs a router under uvicorn."""

from __future__ import annotations

import logging

import uvicorn

from router.app import create_app
from router.settings import RouterSettings


def server(settings: RouterSettings) -> uvicorn.Server:
    """A server that was not started yet."""
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        # Logging belongs to whoever runs the process; inside Ray, uvicorn's own set-up does harm.
        log_config=None,
        access_log=False,
        # Takes long headers, so that they get a proper error and not a closed connection.
        http="httptools",
        loop="uvloop",
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_s,
    )
    return uvicorn.Server(config)


def run(settings: RouterSettings) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight may end first."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    server(settings).run()
