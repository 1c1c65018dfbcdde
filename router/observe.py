"""Outermost layer: counts and times every request, lets no oversized headers in and no unexpected
exception out.
"""

from __future__ import annotations

import logging
import time
import traceback

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from router.error_shape import error_response
from router.errors import HeadersTooLarge, RouterError
from router.metrics import OTHER_ROUTE, RouterMetrics

logger = logging.getLogger(__name__)

_CLIENT_LEFT = 499


class Observer:
    """ASGI middleware."""

    def __init__(
        self, app: ASGIApp, metrics: RouterMetrics, paths: frozenset[str], max_header_bytes: int
    ) -> None:
        self._app = app
        self._max_header_bytes = max_header_bytes
        self._metrics = metrics
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.monotonic()
        status = _CLIENT_LEFT

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if sum(len(name) + len(value) for name, value in scope["headers"]) > (
                self._max_header_bytes
            ):
                raise HeadersTooLarge(f"the headers are longer than {self._max_header_bytes} bytes")
            await self._app(scope, receive, observed_send)
        except RouterError as error:
            await error_response(error)(scope, receive, observed_send)
        except Exception as problem:
            # Type and place alone: an exception's message may hold what the client sent.
            frame = traceback.extract_tb(problem.__traceback__)[-1]
            logger.error(
                "unexpected %s at %s:%s", type(problem).__name__, frame.filename, frame.lineno
            )
            if status != _CLIENT_LEFT:
                # Closing the connection is the only way left to say that the answer is broken.
                raise ConnectionAbortedError("the answer broke off") from None
            answer = error_response(RouterError("internal error", code="internal_error"))
            await answer(scope, receive, observed_send)
        finally:
            route = self._route(scope["path"])
            took_s = time.monotonic() - began_s
            self._metrics.request_seconds.labels(route).observe(took_s)
            self._metrics.requests.labels(route, str(status)).inc()
            logger.debug("%s %s %s %.3f s", scope["method"], route, status, took_s)

    def _route(self, path: str) -> str:
        if path in self._paths:
            return path
        for prefix in ("/v1/workflows", "/v1/models"):
            if path.startswith(f"{prefix}/"):
                return f"{prefix}/{{id}}"
        return OTHER_ROUTE
