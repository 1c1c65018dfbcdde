"""Routers, replicas and processes for the tests of this folder."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import RedisError

from router.redis_client import async_redis_client
from router.server import server
from router.settings import RouterSettings
from services.ports import free_port
from tests.fakes.engine import MODEL, FakeEngine
from tests.redis_server import RedisServer

ROOT = Path(__file__).parents[3]
HEARTBEAT_S = 0.1
TTL_MS = 5000
MESSAGES = [{"role": "user", "content": "hello"}]

# Looks at Redis are frequent: what takes seconds in production is seen in a moment. Limits that
# would end something good are long: the machine may be busy.
FAST = {
    "refresh_s": 0.05,
    "heartbeat_ttl_s": TTL_MS / 1000,
    "mark_down_s": 1.0,
    "redis_timeout_s": 2.0,
    "total_timeout_s": 30.0,
    "shutdown_s": 1,
}


async def eventually(condition: Callable, timeout_s: float = 90.0):
    """The first true value of ``condition``, for what happens in another process."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline_s, "still not true"
        await asyncio.sleep(0.02)


@dataclass
class Router:
    """A router under its own uvicorn in this process."""

    url: str
    serving: object
    http: httpx.AsyncClient

    async def chat(self, workflow: str | None = "w", *, headers=None, **body) -> httpx.Response:
        own = {"X-Workflow-ID": workflow} if workflow else {}
        return await self.http.post(
            "/v1/chat/completions",
            json={"model": MODEL, "messages": MESSAGES, **body},
            headers={**own, **(headers or {})},
        )

    def metric(self, name: str, **labels: str) -> float:
        value = self.serving.metrics.registry.get_sample_value(name, labels)
        return value or 0.0


@asynccontextmanager
async def running_router(redis_url: str, **settings):
    """A router that is ready to take requests (its replicas may not be)."""
    serve = server(RouterSettings.of({**FAST, "redis_url": redis_url, "port": 0, **settings}))
    task = asyncio.create_task(serve.serve())
    try:
        await eventually(lambda: serve.started or task.done())
        port = serve.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            yield Router(url, serve.config.app.state.serving, http)
    finally:
        serve.should_exit = True
        await task


@dataclass
class Fleet:
    """Fake engines with the heartbeats that their supervisors would write."""

    client: redis.asyncio.Redis
    engines: dict[str, FakeEngine] = field(default_factory=dict)
    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    beating: bool = True

    async def add(self, name: str, url: str | None = None, **fields: object) -> FakeEngine | None:
        engine = None
        if url is None:
            engine = self.engines[name] = await FakeEngine(name).start()
            url = engine.url
        self.entries[name] = {
            "url": url,
            "state": "ready",
            "model": MODEL,
            "epoch": "1",
            "kv_tokens_total": "1000",
            "kv_tokens_active": "0",
            "updated_at": "0",
        } | {key: str(value) for key, value in fields.items()}
        await self.beat()
        return engine

    async def set(self, name: str, **fields: object) -> None:
        self.entries[name].update((key, str(value)) for key, value in fields.items())
        await self.beat()

    async def remove(self, name: str) -> None:
        """As a supervisor does when its engine died."""
        del self.entries[name]
        await self.client.delete(f"pbkv:replica:{name}")

    async def beat(self) -> None:
        async with self.client.pipeline() as pipe:
            for name, entry in self.entries.items():
                pipe.hset(f"pbkv:replica:{name}", mapping=entry)
                pipe.pexpire(f"pbkv:replica:{name}", TTL_MS)
            await pipe.execute()

    async def beat_forever(self) -> None:
        while True:
            if self.beating:
                with suppress(RedisError, OSError):
                    await self.beat()
            await asyncio.sleep(HEARTBEAT_S)

    async def events(self, name: str) -> list[dict[str, str]]:
        entries = await self.client.xrange(f"pbkv:events:{name}")
        return [fields for _, fields in entries]

    async def kinds(self, name: str) -> list[str]:
        return [event["kind"] for event in await self.events(name)]

    async def workflow(self, name: str = "w", tenant: str = "default") -> dict[str, str]:
        return await self.client.hgetall(f"pbkv:workflow:{tenant}:{name}")

    def requests(self) -> list:
        return [request for engine in self.engines.values() for request in engine.requests]


@asynccontextmanager
async def running_fleet(redis_url: str, *, timeout_s: float = 5.0):
    client = async_redis_client(
        redis_url,
        decode_responses=True,
        socket_timeout=timeout_s,
        # Its idle connections die with the server.
        retry=Retry(ConstantBackoff(0.05), 10),
    )
    fleet = Fleet(client)
    task = asyncio.create_task(fleet.beat_forever())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.aclose)
        try:
            yield fleet
        finally:
            task.cancel()
            for engine in fleet.engines.values():
                await engine.stop()


def start_process(argv: list[str], **environ: str) -> subprocess.Popen:
    """A process of its own group; end it with :func:`end_process`."""
    return subprocess.Popen(
        argv,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def end_process(process: subprocess.Popen, how: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)
    process.wait(timeout=20)


async def answers(url: str) -> bool:
    async with httpx.AsyncClient() as http:
        try:
            return (await http.get(url)).status_code == 200
        except httpx.TransportError:
            return False


@asynccontextmanager
async def engine_process():
    """A fake engine that can be killed: its process and its URL."""
    port = free_port()
    process = start_process([sys.executable, "-m", "tests.fakes.engine", "--port", str(port)])
    try:
        await eventually(lambda: answers(f"http://127.0.0.1:{port}/health"))
        yield process, f"http://127.0.0.1:{port}"
    finally:
        end_process(process)


@asynccontextmanager
async def router_process(redis_url: str, **settings):
    """A router in a process of its own: its process and its URL."""
    port = free_port()
    code = (
        "import os; from router.server import run; from router.settings import RouterSettings; "
        "run(RouterSettings.from_env(os.environ))"
    )
    values = {**FAST, **settings}
    environ = {f"PBKV_ROUTER_{name.upper()}": str(value) for name, value in values.items()}
    environ |= {"PBKV_ROUTER_REDIS_URL": redis_url, "PBKV_ROUTER_PORT": str(port)}
    process = start_process([sys.executable, "-c", code], **environ)
    try:
        await eventually(lambda: answers(f"http://127.0.0.1:{port}/ready"))
        yield process, f"http://127.0.0.1:{port}"
    finally:
        end_process(process, signal.SIGTERM)


async def restart(server: RedisServer, *, keep_data: bool) -> None:
    await asyncio.to_thread(server.start, keep_data=keep_data)
