"""A stand-in for an SGLang server, for tests of faults and of speed.

It speaks the server's HTTP: chat completions and completions, streamed and not, models, health. It
records requests verbatim, and misbehaves as told: by attributes of :class:`FakeEngine` in this
process, or by ``POST /_control`` when it runs as a process of its own
(``python -m tests.fakes.engine --port N``), which can then be killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from aiohttp import web

MODEL = "fake-model"


@dataclass(slots=True)
class Faults:
    """What goes wrong with the requests from now on."""

    hold: bool = False
    """Answer nothing until :meth:`FakeEngine.release`."""
    hold_after_chunks: int | None = None
    """Stop in the middle of a stream until :meth:`FakeEngine.release`."""
    drop: bool = False
    """Reset the connection without a byte."""
    die_after_chunks: int | None = None
    """Reset the connection in the middle of a stream."""
    cut_body: bool = False
    """Reset the connection in the middle of an answer that is not streamed."""
    status: int = 200
    """Answer with an error of this status, in SGLang's form."""
    message: str = "bad request"
    chunks: int = 3
    """Length of an answer."""
    whole: bool = False
    """Answer with one body although a stream was asked for."""
    split_bytes: int = 0
    """Write streams in pieces of this many bytes, whatever the events."""
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def invocation(self) -> dict[str, Any]:
        return self.json["custom_params"]["pbkv"]


@dataclass(slots=True)
class FakeEngine:
    """The server. ``arrived`` and ``disconnected`` count; await them with :meth:`until`."""

    name: str = "fake"
    faults: Faults = field(default_factory=Faults)
    requests: list[Recorded] = field(default_factory=list)
    disconnected: int = 0
    url: str = ""
    _release: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> FakeEngine:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/_control", self._report)
        app.router.add_post("/_control", self._control)
        for path in ("chat/completions", "completions", "embeddings", "responses"):
            app.router.add_post(f"/v1/{path}", self._generate)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def stop(self) -> None:
        """Close the port: from then on connections are refused."""
        self.release()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def release(self) -> None:
        """Let all held requests go on."""
        self._release.set()

    async def until(self, *, arrived: int = 0, disconnected: int = 0) -> None:
        """Wait until so many requests came and so many clients left."""
        async with self._changed:
            await asyncio.wait_for(
                self._changed.wait_for(
                    lambda: len(self.requests) >= arrived and self.disconnected >= disconnected
                ),
                timeout=90,
            )

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def _report(self, request: web.Request) -> web.Response:
        """With ``?arrived=N&disconnected=N``: waits first."""
        await self.until(**{name: int(value) for name, value in request.query.items()})
        bodies = [recorded.body.decode() for recorded in self.requests]
        return web.json_response({"bodies": bodies, "disconnected": self.disconnected})

    async def _control(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        if wanted.pop("release", False):
            self.release()
        for name, value in wanted.items():
            assert name in {f.name for f in fields(Faults)}, name
            setattr(self.faults, name, value)
        return web.json_response({})

    async def _note(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(Recorded(request.path, request.headers.copy(), body))
        await self._note()
        try:
            return await self._answer(request, json.loads(body))
        except asyncio.CancelledError:
            self.disconnected += 1
            await self._note()
            raise

    async def _answer(self, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        faults = self.faults
        if faults.hold:
            await self._release.wait()
        if faults.drop:
            _reset(request)
            return web.Response()
        if faults.status != 200:
            error = {
                "object": "error",
                "message": faults.message,
                "type": "BadRequest",
                "param": None,
                "code": faults.status,
            }
            return web.json_response(error, status=faults.status)
        if asked.get("stream") and not faults.whole and request.path != "/v1/embeddings":
            return await self._stream(request, asked)
        body = json.dumps(self._whole(request.path, asked)).encode()
        if faults.cut_body:
            response = web.StreamResponse(headers={"Content-Length": str(len(body))})
            await response.prepare(request)
            await response.write(body[:10])
            _reset(request)
            return response
        return web.Response(body=body, content_type="application/json")

    async def _stream(self, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for index, event in enumerate(self.events(asked)):
            if index == self.faults.die_after_chunks:
                _reset(request)
                return response
            if index == self.faults.hold_after_chunks:
                await self._release.wait()
            size = self.faults.split_bytes or len(event)
            for start in range(0, len(event), size):
                await response.write(event[start : start + size])
                if self.faults.split_bytes:
                    # Let the piece leave as a packet of its own.
                    await asyncio.sleep(0)
        await response.write_eof()
        return response

    def events(self, asked: dict[str, Any]) -> list[bytes]:
        """The events of a streamed answer to ``asked``, as SGLang writes them."""
        options = asked.get("stream_options") or {}
        head = {"id": "answer-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
        chunks: list[Any] = [
            {
                **head,
                "choices": [
                    {"index": 0, "delta": {"content": f"wörd {i} "}, "finish_reason": None}
                ],
                "usage": None,
            }
            for i in range(self.faults.chunks)
        ]
        chunks[-1]["choices"][0]["finish_reason"] = "stop"
        if options.get("include_usage"):
            chunks.append({**head, "choices": [], "usage": self._usage()})
        return [_event(chunk) for chunk in chunks] + [b"data: [DONE]\n\n"]

    def _usage(self) -> dict[str, Any]:
        return {
            "prompt_tokens": 11,
            "total_tokens": 11 + self.faults.chunks,
            "completion_tokens": self.faults.chunks,
            "prompt_tokens_details": {"cached_tokens": self.faults.cached_tokens},
        }

    def _whole(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        if path == "/v1/embeddings":
            item = {"object": "embedding", "index": 0, "embedding": [0.5]}
            return {"object": "list", "data": [item], "usage": self._usage()}
        if path == "/v1/responses":
            usage = {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14}
            return {"id": "response-1", "object": "response", "output": [], "usage": usage}
        text = f"answer of {self.name}"
        chat = path == "/v1/chat/completions"
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        return {
            "id": "answer-1",
            "object": "chat.completion" if chat else "text_completion",
            "created": 1,
            "model": asked["model"],
            "choices": [choice],
            "usage": self._usage(),
        }


def _event(chunk: dict[str, Any]) -> bytes:
    return (
        b"data: " + json.dumps(chunk, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"
    )


def _reset(request: web.Request) -> None:
    """Close the connection as a killed process does: with a reset, not an orderly end."""
    transport = request.transport
    assert transport is not None
    linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()


async def _serve(port: int) -> None:
    engine = await FakeEngine(name=f"process-{port}").start(port)
    print(engine.url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(_serve(parser.parse_args().port))
