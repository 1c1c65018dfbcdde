"""The Serve deployment with an engine that is a few lines of HTTP, for tests of Serve itself.

Serve's workers get this module by value: they have no path to the tests.
"""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import redis
from ray import serve

from services.registration import ReplicaIdentity
from services.replica import EngineReplica
from services.settings import ReplicaSettings
from services.supervisor import ReplicaSupervisor

KV_TOKENS = 1000
ACTIVE_TOKENS = 300


def load_key(replica_id: str) -> str:
    return f"load:{replica_id}"


class FakeEngine:
    """Answers for an engine with as many live workflows as ``load:{replica}`` says, or 1."""

    def __init__(self, replica_id: str, redis_url: str) -> None:
        self._key = load_key(replica_id)
        self._redis = redis.Redis.from_url(redis_url, decode_responses=True)
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Not a line for every look."""

            def do_GET(self) -> None:
                body = engine.metrics().encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def metrics(self) -> str:
        workflows = self._redis.get(self._key) or 1
        return (
            f'pbkv_kv_tokens{{state="total"}} {KV_TOKENS}\n'
            f'pbkv_kv_tokens{{state="active"}} {ACTIVE_TOKENS}\n'
            f'pbkv_workflows{{state="active"}} {workflows}\n'
        )

    def is_alive(self) -> bool:
        return self._server is not None

    def raise_if_dead(self) -> None:
        """It never dies."""

    def wait_ready(self, timeout_s: float) -> float:
        return 0.0

    def stop(self, grace_s: float = 0.0) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server = None


class ScaledReplica(EngineReplica):
    """The deployment's class with another engine: health, statistics and end are its own."""

    async def __init__(self, settings: dict[str, Any]) -> None:  # type: ignore[misc]
        self._settings = ReplicaSettings.model_validate(settings)
        self._drain_limit_s = self._settings.drain_limit_s
        replica_id = serve.get_replica_context().replica_id.unique_id
        engine = FakeEngine(replica_id, self._settings.redis_url)
        engine.start()
        identity = ReplicaIdentity(replica_id, engine.url, "fake", epoch=int(time.time() * 1000))
        self._supervisor = ReplicaSupervisor(engine, identity, self._settings.redis_url)
        await self._supervisor.start(60.0)
