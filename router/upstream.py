"""The hop to a replica: one shared pool of connections, one attempt at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

import aiohttp
from multidict import CIMultiDict

from router.errors import CutOff, InvalidRequest, NoFirstByte

HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
# Set anew for the body that is really sent, or asked of the engine in a form we can read.
_REPLACED = frozenset(("host", "content-length", "content-type", "accept-encoding", "expect"))

# Below the 5 s after which uvicorn closes an idle connection: the engine must not close one at
# the moment it is used again.
_IDLE_CONNECTION_S = 2.0
_READ_BYTES = 256 * 1024


@dataclass(slots=True)
class Answer:
    """An answer whose first bytes are here. :meth:`close` ends the replica's work on it."""

    response: aiohttp.ClientResponse
    first: bytes

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def is_events(self) -> bool:
        """Whether the body is a stream of server-sent events."""
        return self.response.content_type == "text/event-stream"

    async def next(self) -> bytes:
        """More bytes, b"" at the end. Raises :class:`CutOff`."""
        try:
            return await self.response.content.readany()
        except (aiohttp.ClientError, OSError) as problem:
            raise CutOff(type(problem).__name__) from None

    async def rest(self) -> bytes:
        """The whole body. Raises :class:`CutOff`."""
        parts = [self.first]
        while chunk := await self.next():
            parts.append(chunk)
        return b"".join(parts)

    def close(self) -> None:
        """Close the connection unless the answer was read to its end: the engine then aborts."""
        self.response.close()


class Upstream:
    """Sends requests to replicas. Use as an async context manager."""

    def __init__(self, *, connect_timeout_s: float) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s)
        self._pooled: aiohttp.ClientSession
        self._fresh: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        self._pooled = self._session(
            aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_CONNECTION_S), [trace]
        )
        self._fresh = self._session(aiohttp.TCPConnector(limit=0, force_close=True), [])
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._pooled.close()
        await self._fresh.close()

    async def send(self, url: str, headers: CIMultiDict[str], body: bytes) -> Answer:
        """POST, and wait for the first bytes of the answer's body.

        Raises :class:`NoFirstByte`. Cancellation closes the connection.
        """
        attempt = SimpleNamespace(reused=False)
        try:
            return await self._attempt(self._pooled, url, headers, body, attempt)
        except NoFirstByte as lost:
            if lost.refused or not attempt.reused:
                raise
        # An old connection may have been closed under us: that says nothing of the replica.
        return await self._attempt(self._fresh, url, headers, body, None)

    def _session(
        self, connector: aiohttp.TCPConnector, traces: list[aiohttp.TraceConfig]
    ) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            timeout=self._timeout,
            trace_configs=traces,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BYTES,
            skip_auto_headers=("User-Agent",),
        )

    async def _attempt(
        self,
        session: aiohttp.ClientSession,
        url: str,
        headers: CIMultiDict[str],
        body: bytes,
        attempt: SimpleNamespace | None,
    ) -> Answer:
        response: aiohttp.ClientResponse | None = None
        try:
            response = await session.post(
                url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=attempt
            )
            return Answer(response, await response.content.readany())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
            raise NoFirstByte(type(problem).__name__, refused=True) from None
        except (aiohttp.ClientError, OSError) as problem:
            if response is not None:
                response.close()
            raise NoFirstByte(type(problem).__name__, refused=False) from None
        except BaseException:
            if response is not None:
                response.close()
            raise


def forwarded_headers(
    raw_headers: Iterable[tuple[bytes, bytes]], *, drop: frozenset[str] = frozenset()
) -> CIMultiDict[str]:
    """A request's headers as they go on to the replica. Raises :class:`InvalidRequest`."""
    raw = [(name.decode("latin-1").lower(), value) for name, value in raw_headers]
    named = {
        token.strip().lower()
        for name, value in raw
        if name == "connection"
        for token in value.decode("latin-1").split(",")
    }
    dropped = HOP_BY_HOP | _REPLACED | drop | named
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in raw:
        if name in dropped:
            continue
        try:
            headers.add(name, value.decode())
        except UnicodeDecodeError:
            raise InvalidRequest(f"header {name[:64]} is not UTF-8") from None
    headers["content-type"] = "application/json"
    headers["accept-encoding"] = "identity"
    return headers


async def _note_reuse(
    session: aiohttp.ClientSession,
    context: SimpleNamespace,
    params: aiohttp.TraceConnectionReuseconnParams,
) -> None:
    attempt: Any = context.trace_request_ctx
    attempt.reused = True
