"""Streams against one address, each chunk timed against the moment at which it was due.

A protocol object per connection and no framework: on two cores whatever the client spends is
missing from what it measures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools
import orjson

from services.bench.drive import BenchError

_CONNECT_TIMEOUT_S = 10.0
_CHUNK = b"data: {"


@dataclass(frozen=True, slots=True)
class Cadence:
    """The known times of an endpoint: a first chunk after ``gap_s``, the others ``gap_s`` apart."""

    gap_s: float
    chunks: int

    @property
    def call_s(self) -> float:
        """How long one call lasts."""
        return self.gap_s * self.chunks


@dataclass(slots=True)
class Window:
    """What was received while it was open. Lateness is in seconds, of single chunks."""

    open: bool = False
    lateness_s: list[float] = field(default_factory=list)
    errors: int = 0
    first_error: str = ""

    def failed(self, reason: str) -> None:
        """One call did not get its answer."""
        self.errors += 1
        self.first_error = self.first_error or reason


class Stream(asyncio.Protocol):
    """One connection that asks again whenever an answer is over, until :meth:`stop`."""

    def __init__(self, request: bytes, cadence: Cadence, window: Window) -> None:
        self._request = request
        self._cadence = cadence
        self._window = window
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._sent_s = 0.0
        self._received = 0
        self._stopped = False
        self._last = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        if self._stopped:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            self._fail(f"no HTTP: {problem}")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status != 200:
            self._fail(f"status {status}")

    def on_body(self, body: bytes) -> None:
        now_s = time.perf_counter()
        received = self._last + body
        # What may be the beginning of a chunk that goes on in the next part of the body.
        self._last = received[1 - len(_CHUNK) :]
        cadence = self._cadence
        for _ in range(received.count(_CHUNK)):
            self._received += 1
            # Behind the chunks comes the usage, which is due with the last one.
            if self._received > cadence.chunks:
                return
            if self._window.open:
                self._window.lateness_s.append(
                    now_s - self._sent_s - cadence.gap_s * self._received
                )

    def on_message_complete(self) -> None:
        if self._stopped:
            return
        if self._received < self._cadence.chunks:
            self._fail(f"an answer of {self._received} chunks instead of {self._cadence.chunks}")
            return
        self._parser = httptools.HttpResponseParser(self)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._stopped:
            self._fail("the connection was closed")

    def stop(self) -> None:
        """Close the connection, whatever is on its way."""
        self._stopped = True
        if self._transport is not None:
            self._transport.abort()

    def _ask(self) -> None:
        assert self._transport is not None
        self._received = 0
        self._last = b""
        self._sent_s = time.perf_counter()
        self._transport.write(self._request)

    def _fail(self, reason: str) -> None:
        self._window.failed(reason)
        self.stop()


async def run_window(
    url: str,
    streams: int,
    cadence: Cadence,
    seconds: float,
    read_cpu_s: Callable[[], float | None],
) -> tuple[Window, float | None]:
    """Keep ``streams`` streams going and look at ``seconds`` of them, once all have begun.

    Returns the window and the CPU time that passed by ``read_cpu_s`` meanwhile. Streams begin
    spread over the length of a call, so that their chunks do not come in step. Raises
    :class:`BenchError`.
    """
    window = Window()
    opened: list[Stream] = []
    try:
        async with asyncio.TaskGroup() as group:
            for index in range(streams):
                begins_s = cadence.call_s * index / streams
                stream = Stream(_request(url, index), cadence, window)
                opened.append(stream)
                group.create_task(_open(url, stream, begins_s))
        await asyncio.sleep(cadence.gap_s)
        before_s = read_cpu_s()
        window.open = True
        await asyncio.sleep(seconds)
        window.open = False
        after_s = read_cpu_s()
    except* OSError as group_of:
        raise BenchError(f"cannot connect to {url}: {group_of.exceptions[0]}") from None
    finally:
        for stream in opened:
            stream.stop()
    if not window.lateness_s:
        raise BenchError(f"no chunk came from {url}: {window.first_error or 'it is silent'}")
    spent_s = None if before_s is None or after_s is None else after_s - before_s
    return window, spent_s


async def _open(url: str, stream: Stream, begins_s: float) -> None:
    await asyncio.sleep(begins_s)
    address = urlsplit(url)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_CONNECT_TIMEOUT_S):
        await loop.create_connection(lambda: stream, address.hostname or "", address.port or 80)


def _request(url: str, index: int) -> bytes:
    body = orjson.dumps(
        {
            "model": "calibration",
            "messages": [{"role": "user", "content": "word " * 200}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        f"Host: {urlsplit(url).netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Workflow-ID: bench-{index}",
        "X-Agent-Name: Agent",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
