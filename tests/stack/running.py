"""One stack, started by the real command and looked at from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import redis

from services.ports import is_free
from tests.waiting import wait_until

READY_TIMEOUT_S = 400.0
MODEL = "tiny"
_MARK = "PBKV_TEST_STACK"


class RunningStack:
    """``pbkv up`` as a child process.

    Everything it starts carries a mark in its environment, by which :meth:`processes` finds it.
    """

    def __init__(self, folder: Path, *, replicas: int, routers: int) -> None:
        self.replicas = replicas
        self.ports = _consecutive_free_ports(routers)
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]
        self.lines: list[str] = []
        self._mark = f"{os.getpid()}-{self.ports[0]}"
        argv = [sys.executable, "-m", "services.cli.main", "up", "--model", MODEL]
        argv += ["--port", str(self.ports[0]), "--replicas", str(replicas)]
        argv += ["--routers", str(routers), "--device", "cpu", "--state-dir", str(folder)]
        argv += ["--kv-tokens", "8192", "--context-length", "8000"]
        self.process = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, _MARK: self._mark},
        )
        threading.Thread(target=self._read, daemon=True).start()

    def wait_line(self, start: str, timeout_s: float = READY_TIMEOUT_S) -> str:
        """The first line of output that begins with ``start``."""

        def found() -> str | None:
            if self.process.poll() is not None:
                raise AssertionError(f"pbkv up ended:\n{chr(10).join(self.lines)}")
            return next((line for line in list(self.lines) if line.startswith(start)), None)

        return str(wait_until(found, timeout_s))

    @property
    def redis(self) -> redis.Redis:
        url = self.wait_line("redis: ").removeprefix("redis: ")
        return redis.Redis.from_url(url, decode_responses=True)

    def chat(self, workflow: str, text: str, *, router: int = 0, tokens: int = 4) -> httpx.Response:
        """One call of a workflow."""
        return httpx.post(
            f"{self.urls[router]}/v1/chat/completions",
            json={
                "model": MODEL,
                "max_tokens": tokens,
                "messages": [{"role": "user", "content": text}],
            },
            headers={"X-Workflow-ID": workflow, "X-Agent-Name": "tester"},
            timeout=60.0,
        )

    def ready_replicas(self) -> set[str]:
        """Replicas that the first router takes for ready; none while it does not answer."""
        try:
            answer = httpx.get(f"{self.urls[0]}/v1/replicas", timeout=5.0)
        except httpx.TransportError:
            return set()
        if answer.status_code != 200:
            return set()
        return {entry["id"] for entry in answer.json()["data"] if entry["state"] == "ready"}

    def processes(self) -> list[psutil.Process]:
        """All living processes of the stack: those with the mark, and their descendants.

        Redis overwrites its environment with its title, so the mark alone does not find it.
        """
        found: set[psutil.Process] = set()
        for process in psutil.process_iter():
            if _environ(process).get(_MARK) == self._mark:
                found |= {process, *_descendants(process)}
        return [process for process in found if _status(process) != psutil.STATUS_ZOMBIE]

    def engine_processes(self, replica_id: str = "") -> list[psutil.Process]:
        """The processes of one replica's engine (of all, if not named), its guard not included.

        The main process is the first.
        """
        return [
            process
            for process in sorted(self.processes(), key=lambda p: p.pid)
            if _environ(process).get("PBKV_ENGINE_REPLICA_ID", "").startswith(replica_id or "")
            and "PBKV_ENGINE_REPLICA_ID" in _environ(process)
            and not any(word.endswith("guard.py") for word in _cmdline(process))
        ]

    def replica_actor(self, replica_id: str) -> psutil.Process:
        """The Ray worker that supervises a replica's engine."""
        guard = self.engine_processes(replica_id)[0].parent()
        assert guard is not None
        actor = guard.parent()
        assert actor is not None
        assert "ray::" in " ".join(_cmdline(actor))
        return actor

    def process_with(self, *words: str) -> psutil.Process:
        """The process whose command line has all ``words``, guards not included."""
        found = [
            process
            for process in self.processes()
            if set(words) <= set(_cmdline(process))
            and not any(word.endswith("guard.py") for word in _cmdline(process))
        ]
        assert len(found) == 1, [_cmdline(process) for process in found]
        return found[0]

    def kill_leftovers(self) -> None:
        """End it all, for a test that failed on its way."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        _, alive = psutil.wait_procs(self.processes(), timeout=10)
        for process in alive:
            process.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


def _consecutive_free_ports(count: int) -> list[int]:
    def free_runs() -> Iterator[list[int]]:
        # Above what free_port picks, below what the kernel picks for connections.
        for first in range(30_000, 32_000 - count, count):
            ports = list(range(first, first + count))
            if all(is_free(port) for port in ports):
                yield ports

    return next(free_runs())


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.Error:
        return psutil.STATUS_ZOMBIE
