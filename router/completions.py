"""The endpoints that an engine answers: chat completions, completions, embeddings, responses."""

from __future__ import annotations

import time

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from router.call import parse_call, parse_object, read_body
from router.errors import NoReplicaReady, TooManyRequests
from router.identity import identify
from router.pins import WorkflowKey
from router.relay import Relay, RelayRequest
from router.serving import Serving
from router.upstream import forwarded_headers


class EngineEndpoint:
    """An ASGI endpoint, not a function: it sends an answer's bytes as they come and hears when
    the client leaves, at no further cost per request.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._in_flight = 0
        # The client's key was for this router; without keys of ours it is the engine's.
        self._dropped = frozenset(("authorization",) if serving.auth.required else ())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived_s = time.monotonic()
        settings = self._serving.settings
        raw_headers: list[tuple[bytes, bytes]] = scope["headers"]
        tenant = self._serving.auth.tenant(raw_headers)
        if self._in_flight >= settings.max_in_flight:
            raise TooManyRequests(
                f"more than {settings.max_in_flight} requests are in flight",
                retry_after_s=settings.retry_after_s,
            )
        self._in_flight += 1
        self._serving.metrics.in_flight.inc()
        try:
            relay = await self._read(scope, receive, tenant, arrived_s)
            await relay.run(receive, send)
        except ClientDisconnect:
            return
        finally:
            self._in_flight -= 1
            self._serving.metrics.in_flight.dec()
        await relay.settle()

    async def _read(self, scope: Scope, receive: Receive, tenant: str, arrived_s: float) -> Relay:
        request = Request(scope, receive)
        settings = self._serving.settings
        raw_body = await read_body(
            request.stream(), request.headers.get("content-length"), settings.max_body_bytes
        )
        body = parse_object(raw_body)
        identity = identify(scope["headers"], body, tenant)
        models = self._serving.directory.models()
        if not models:
            raise NoReplicaReady("no replica is ready", retry_after_s=settings.retry_after_s)
        call = parse_call(scope["path"], body, models)
        self._serving.metrics.identities.labels(identity.source).inc()
        relayed = RelayRequest(
            call=call,
            key=WorkflowKey(tenant, identity.workflow_id),
            identity=identity,
            headers=forwarded_headers(scope["headers"], drop=self._dropped),
            arrived_s=arrived_s,
        )
        return Relay(self._serving, relayed)
