"""A replica without Ray: SIGTERM drains it, and the workflow it has goes on to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from services.guard import start_guarded
from services.ports import free_port
from tests.redis_server import RedisServer
from tests.stack.running import MODEL, READY_TIMEOUT_S
from tests.waiting import wait_until


class BareStack:
    """Redis, one replica and one router, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.redis = RedisServer(folder)
        self.redis.start()
        self.router_url = f"http://127.0.0.1:{free_port()}"
        self.router = self._start(
            *("router", "--port", self.router_url.rpartition(":")[2]),
            log=folder / "router.log",
        )
        self.replica = self._start(
            *("replica", "--model", MODEL, "--device", "cpu", "--replica-id", "r1"),
            *("--kv-tokens", "4096", "--context-length", "2048", "--drain-limit", "300"),
            log=folder / "replica.log",
        )

    def _start(self, *words: str, log: Path) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "services.cli.main", "serve", *words]
        with log.open("wb") as output:
            return start_guarded(
                [*argv, "--redis-url", self.redis.url], env=dict(os.environ), output=output
            )

    def state(self) -> str | None:
        state: str | None = self.redis.client.hget("pbkv:replica:r1", "state")
        return state

    def chat(self, workflow: str) -> httpx.Response:
        return httpx.post(
            f"{self.router_url}/v1/chat/completions",
            json={
                "model": MODEL,
                "max_tokens": 2,
                "messages": [{"role": "user", "content": "Hello"}],
            },
            headers={"X-Workflow-ID": workflow, "X-Agent-Name": "tester"},
            timeout=60.0,
        )

    def stop(self) -> None:
        for process in (self.replica, self.router):
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)
        self.redis.kill()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[BareStack]:
    stack = BareStack(tmp_path)
    try:
        wait_until(lambda: stack.state() == "ready", READY_TIMEOUT_S)
        wait_until(lambda: httpx.get(f"{stack.router_url}/ready").status_code == 200)
        yield stack
    finally:
        stack.stop()


def test_sigterm_drains_and_ends(bare: BareStack) -> None:
    assert bare.chat("old").status_code == 200
    wait_until(lambda: int(bare.redis.client.hget("pbkv:replica:r1", "workflows") or 0) == 1)
    engine = psutil.Process(bare.replica.pid).children(recursive=True)
    bare.replica.send_signal(signal.SIGTERM)
    wait_until(lambda: bare.state() == "draining")

    def replicas() -> list[str]:
        data = httpx.get(f"{bare.router_url}/v1/replicas").json()["data"]
        return [entry["state"] for entry in data]

    wait_until(lambda: replicas() == ["draining"])
    # The workflow that is under way goes on, and no other begins.
    assert bare.chat("old").status_code == 200
    assert bare.chat("new").status_code == 503
    assert bare.replica.poll() is None
    assert httpx.delete(f"{bare.router_url}/v1/workflows/old").status_code == 204
    assert bare.replica.wait(60) == 0
    assert bare.state() is None
    assert [process for process in engine if process.is_running()] == []
