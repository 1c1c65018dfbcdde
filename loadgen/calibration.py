"""An endpoint with known times, to measure the load generator itself by.

``python -m loadgen.calibration TTFT GAP CHUNKS [PORT]`` prints its URL and answers every chat
completion with ``CHUNKS`` chunks: the first after ``TTFT`` seconds, the others ``GAP`` seconds
apart. What a client measures beyond that is the client's own. One protocol object per connection
and no framework, so that it leaves the machine to what is being measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import cast

import httptools
import uvloop

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = json.dumps({"object": "list", "data": [{"id": "calibration", "object": "model"}]})
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


class Endpoint(asyncio.Protocol):
    """One connection."""

    def __init__(self, ttft_s: float, gap_s: float, chunks: int) -> None:
        self._ttft_s = ttft_s
        self._gap_s = gap_s
        self._events = [_chunk(_event(index, chunks)) for index in range(chunks)]
        self._events[-1] += _chunk(_usage(chunks)) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have no base class in common with asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._path = b""

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_message_complete(self) -> None:
        if self._path == b"/v1/chat/completions":
            self._loop.call_later(self._ttft_s, self._send, 0, self._loop.time() + self._ttft_s)
        elif self._path == b"/v1/models":
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(_MODELS)}\r\n\r\n"
            self._write((head + _MODELS).encode())
        elif self._path == b"/health":
            self._write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        else:
            self._write(_NOT_FOUND)

    def _send(self, index: int, due_s: float) -> None:
        # By due times, so that a late chunk does not delay those after it.
        self._write((b"" if index else _HEAD) + self._events[index])
        if index + 1 < len(self._events):
            due_s += self._gap_s
            self._loop.call_at(due_s, self._send, index + 1, due_s)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def _event(index: int, chunks: int) -> bytes:
    last = index + 1 == chunks
    choice = {
        "index": 0,
        "delta": {"content": f"word{index} "},
        "finish_reason": "stop" if last else None,
    }
    return _data({"choices": [choice]})


def _usage(chunks: int) -> bytes:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": chunks,
        "total_tokens": 100 + chunks,
        "prompt_tokens_details": {"cached_tokens": 50},
    }
    return _data({"choices": [], "usage": usage})


def _data(content: dict[str, object]) -> bytes:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "calibration"}
    return b"data: " + json.dumps({**head, **content}).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _serve(ttft_s: float, gap_s: float, chunks: int, port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Endpoint(ttft_s, gap_s, chunks), "127.0.0.1", port, backlog=4096
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    _port = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    uvloop.run(_serve(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), _port))
