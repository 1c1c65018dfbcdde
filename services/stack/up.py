"""``pbkv up``: start the stack step by step, look after it, and leave nothing behind."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from pbkv.keys import REPLICAS_PATTERN
from pbkv.sglang.redis_client import redis_client
from services.stack.child import Child
from services.stack.cluster import Cluster
from services.stack.errors import StackFailed, StackRefused
from services.stack.preflight import Plan, make_plan
from services.stack.redis_server import RedisServer
from services.stack.settings import StackSettings, default_state_dir

_TICK_S = 0.25
_STATUS_EVERY_S = 2.0
_ROUTER_SHUTDOWN_S = 3
_ROUTER_GRACE_S = _ROUTER_SHUTDOWN_S + 1.0
_REDIS_GRACE_S = 3.0
_HTTP_TIMEOUT_S = 2.0

Say = Callable[[str], None]
InstallSignals = Callable[[], None]


def run_stack(
    settings: StackSettings, stop: threading.Event, say: Say, install_signals: InstallSignals
) -> None:
    """Run a stack until ``stop`` is set. Blocks until everything it started was told to end.

    ``install_signals`` makes SIGINT and SIGTERM set ``stop``. It is called again after Ray, which
    installs handlers of its own.
    Raises :class:`StackRefused` or :class:`StackFailed` with one line.
    """
    install_signals()
    state_dir = settings.state_dir or default_state_dir(settings.port, os.environ)
    with ExitStack() as cleanup:
        cleanup.enter_context(_lock(state_dir, settings.port))
        plan = make_plan(settings, say)
        _clear_logs(state_dir)
        stack = _Stack(plan, state_dir, stop, say, cleanup)
        stack.start(install_signals)
        stack.follow()
        say("stopping")


class _Stack:
    def __init__(
        self, plan: Plan, state_dir: Path, stop: threading.Event, say: Say, cleanup: ExitStack
    ) -> None:
        self._plan = plan
        self._state_dir = state_dir
        self._stop = stop
        self._say = say
        self._cleanup = cleanup
        self._children: list[Child] = []
        self._cluster = Cluster()
        self._redis_url = ""
        self._known: dict[str, str] = {}
        self._next_status_s = 0.0

    def start(self, install_signals: InstallSignals) -> None:
        """Start everything and wait until the first router answers for all replicas."""
        plan, settings = self._plan, self._plan.settings
        began_s = time.monotonic()
        self._start_redis()
        replica = plan.replica(self._redis_url, self._state_dir)
        for port in settings.router_ports:
            self._start_router(port)
        if self._stop.is_set():
            return
        self._say("ray: starting")
        self._cleanup.callback(self._cluster.stop)
        self._cluster.start(replica)
        install_signals()
        self._say(
            f"replicas: starting {settings.replicas} on {plan.device}, policy {settings.policy}, "
            f"{plan.kv_tokens or 'as many as fit'} KV tokens each; "
            f"logs in {self._state_dir}"
        )
        while not self._stop.is_set() and not self._serves():
            self._tick()
            self._cluster.raise_if_failed()
        if not self._stop.is_set():
            self._say(_ready_text(settings, time.monotonic() - began_s))

    def follow(self) -> None:
        """Look after the processes until told to stop."""
        while not self._stop.is_set():
            self._tick()

    def _start_redis(self) -> None:
        settings = self._plan.settings
        if settings.redis_url is not None:
            self._redis_url = settings.redis_url
            return
        server = RedisServer(
            self._state_dir / "redis", os.environ, self._state_dir / "redis.log", self._say
        )
        self._cleanup.callback(server.child.stop, _REDIS_GRACE_S)
        server.start()
        self._children.append(server.child)
        self._redis_url = server.url
        self._say(f"redis: {server.url}")

    def _start_router(self, port: int) -> None:
        settings = self._plan.settings
        argv = [sys.executable, "-m", "services.cli.main", "serve", "router"]
        argv += ["--host", settings.host, "--port", str(port), "--redis-url", self._redis_url]
        argv += ["--idle-timeout", f"{settings.idle_timeout_s:g}"]
        router = Child(
            f"router on port {port}",
            argv,
            environ={**os.environ, "PBKV_ROUTER_SHUTDOWN_S": str(_ROUTER_SHUTDOWN_S)},
            log_path=self._state_dir / f"router-{port}.log",
            say=self._say,
        )
        self._cleanup.callback(router.stop, _ROUTER_GRACE_S)
        router.start()
        while not _answers(f"http://{settings.host}:{port}/health"):
            if router.returncode is not None:
                raise StackFailed(f"{router.name} does not start: {router.last_line()}")
            if self._stop.wait(_TICK_S):
                return
        self._children.append(router)
        self._say(f"router: http://{settings.host}:{port}")

    def _serves(self) -> bool:
        settings = self._plan.settings
        ready = sum(state == "ready" for state in self._known.values())
        return ready >= settings.replicas and all(
            _answers(f"http://{settings.host}:{port}/ready") for port in settings.router_ports
        )

    def _tick(self) -> None:
        for child in self._children:
            child.tick()
        now_s = time.monotonic()
        if now_s >= self._next_status_s:
            self._next_status_s = now_s + _STATUS_EVERY_S
            self._report_replicas()
        self._stop.wait(_TICK_S)

    def _report_replicas(self) -> None:
        """Say what changed among the replicas, as routers see them."""
        try:
            found = _replica_states(self._redis_url)
        except (redis.RedisError, OSError):
            return
        for name in self._known.keys() - found.keys():
            self._say(f"replica {name}: gone")
        for name, state in found.items():
            if self._known.get(name) != state:
                self._say(f"replica {name}: {state}")
        self._known = found


def _replica_states(redis_url: str) -> dict[str, str]:
    client = redis_client(redis_url, decode_responses=True, socket_timeout=_HTTP_TIMEOUT_S)
    with client:
        return {
            str(key).rpartition(":")[2]: str(client.hget(key, "state") or "")
            for key in client.scan_iter(REPLICAS_PATTERN, count=1000)
        }


@contextmanager
def _lock(state_dir: Path, port: int) -> Iterator[None]:
    """Hold the state folder: a stack on this port may be starting and not listen yet."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        lock = (state_dir / "lock").open("w")
    except OSError as problem:
        raise StackRefused(f"cannot use {state_dir}: {problem.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StackRefused(
                f"another pbkv up already uses port {port}; stop it or choose another --port"
            ) from None
        yield


def _clear_logs(state_dir: Path) -> None:
    for log in state_dir.glob("*.log"):
        log.unlink()


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_HTTP_TIMEOUT_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _ready_text(settings: StackSettings, took_s: float) -> str:
    urls = [f"http://{settings.host}:{port}/v1" for port in settings.router_ports]
    model = Path(settings.model).name
    body = (
        f'{{"model": "{model}", "max_tokens": 64, "temperature": 0, "messages": '
        '[{"role": "user", "content": "What is the capital of France?"}]}'
    )
    return (
        f"ready: {' '.join(urls)}  model {model}, {settings.replicas} replicas, {took_s:.0f} s\n"
        f"  curl -i {urls[0]}/chat/completions -H 'Content-Type: application/json' "
        f"-H 'X-Workflow-ID: demo' -H 'X-Agent-Name: guide' -d '{body}'\n"
        f"  dashboard: {urls[0].removesuffix('/v1')}/dashboard\n"
        "  Ctrl-C stops everything"
    )
