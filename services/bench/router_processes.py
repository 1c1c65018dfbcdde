"""The processes of ``pbkv bench router``: the endpoint with known times, Redis, a router.

They stay in the session of the benchmark: Linux shares the cores out by session, and a priority
that the benchmark is given must reach what it measures.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import psutil
import redis

from pbkv.keys import replica_key
from router.settings import ENV_PREFIX
from services.bench.drive import BenchError
from services.bench.router_streams import Cadence
from services.guard import start_guarded
from services.ports import free_port
from services.stack.errors import StackFailed
from services.stack.redis_server import RedisServer

_HOST = "127.0.0.1"
_LOCAL = ("127.0.0.1", "localhost", "::1")
_START_TIMEOUT_S = 60.0
_POLL_S = 0.05
_STOP_S = 5.0
_FILES_PER_STREAM = 2
_SPARE_FILES = 500


@contextmanager
def endpoint(cadence: Cadence, port: int) -> Iterator[str]:
    """The load generator's calibration endpoint; its URL. Raises :class:`BenchError`."""
    argv = [sys.executable, "-m", "loadgen.calibration"]
    argv += [str(cadence.gap_s), str(cadence.gap_s), str(cadence.chunks), str(port)]
    process = start_guarded(argv, output=subprocess.PIPE, own_session=False)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        if not url.startswith("http://"):
            raise BenchError(f"the endpoint did not start: {_last_line(process.stdout) or url}")
        yield url
    finally:
        _end(process)


@contextmanager
def router(endpoint_url: str, streams: int, folder: Path) -> Iterator[str]:
    """A router as ``pbkv serve router`` runs it, the endpoint its only replica; its URL.

    Raises :class:`BenchError`.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    server = RedisServer(
        folder / "redis", own, folder / "redis.log", lambda _: None, own_session=False
    )
    port = free_port(_HOST)
    argv = [sys.executable, "-m", "services.cli.main", "serve", "router"]
    argv += ["--host", _HOST, "--port", str(port), "--redis-url", server.url]
    own[f"{ENV_PREFIX}MAX_IN_FLIGHT"] = str(max(1024, 2 * streams))
    log_path = folder / "router.log"
    try:
        server.start()
        _register(server.url, endpoint_url)
        with log_path.open("wb") as log:
            process = start_guarded(argv, env=own, output=log, own_session=False)
        try:
            url = f"http://{_HOST}:{port}"
            _await_ready(url, process, log_path)
            yield url
        finally:
            _end(process)
    except StackFailed as problem:
        raise BenchError(str(problem)) from None
    finally:
        server.child.stop(_STOP_S)


def listener(url: str) -> psutil.Process | None:
    """The process on this machine that listens at ``url``, if it is here and may be seen."""
    address = urlsplit(url)
    if address.hostname not in _LOCAL:
        return None
    for connection in psutil.net_connections(kind="tcp"):
        listening = connection.status == psutil.CONN_LISTEN
        if listening and connection.laddr.port == address.port and connection.pid:
            return psutil.Process(connection.pid)
    return None


def allow_files(streams: int) -> None:
    """Let this process and those it starts open a socket per stream. Raises :class:`BenchError`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_PER_STREAM * streams + _SPARE_FILES
    if soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise BenchError(f"{streams} streams need {wanted} open files; the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _register(redis_url: str, endpoint_url: str) -> None:
    entry = {"url": endpoint_url, "state": "ready", "model": "calibration", "epoch": "1"}
    with redis.Redis.from_url(redis_url) as client:
        # Without a time to live: nothing beats for it.
        client.hset(replica_key("calibration"), mapping=entry)


def _await_ready(url: str, process: subprocess.Popen[bytes], log_path: Path) -> None:
    # A proxy of the environment is not meant for this machine.
    opener = build_opener(ProxyHandler({}))
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            with opener.open(f"{url}/ready", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > deadline_s:
            lines = log_path.read_text(errors="replace").strip().splitlines()
            raise BenchError(f"the router did not start: {lines[-1] if lines else 'no output'}")
        time.sleep(_POLL_S)


def _last_line(output: IO[bytes]) -> str:
    lines = output.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    # The guard kills what it guards once its standard input is closed.
    if process.stdin is not None:
        process.stdin.close()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
