"""One engine as a child process: started, watched and ended, from any thread."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from services.engine.errors import EngineExited, EngineNotReady
from services.engine.options import EngineOptions, command, environment
from services.guard import start_guarded

READY_POLL_S = 0.25
_HEALTH_TIMEOUT_S = 2.0
_KILL_TIMEOUT_S = 10.0
_TAIL_BYTES = 32_768
_TAIL_LINES = 40
_TAIL_LINE_CHARS = 300
# The last line of a traceback, a refused argument, or what the plug-in says of a bad setting.
_NAMES_AN_ERROR = re.compile(r"\w+(\.\w+)*(Error|Exception): |\S+: error: |pbkv: ")
# Lines of the engine's log that can quote a request; they stay in the log file.
_QUOTES_A_REQUEST = re.compile(r"prompt|messages|input_ids|\btext=|\bobj=|Req\(", re.IGNORECASE)


class EngineProcess:
    """One SGLang server and everything it starts.

    Nothing of it survives :meth:`stop`, the death of this process by any signal, or the death of
    any one of its own parts: see :mod:`services.guard`. Methods may be called from any thread;
    none installs a signal handler. An instance is started once.
    """

    def __init__(self, options: EngineOptions, environ: Mapping[str, str] | None = None) -> None:
        self.options = options
        self._environ = os.environ if environ is None else environ
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.options.url

    @property
    def pid(self) -> int | None:
        """The process id of the guard, whose descendants the engine's processes are."""
        return None if self._guard is None else self._guard.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, None while it runs or before the start."""
        return None if self._guard is None else self._guard.poll()

    def start(self) -> None:
        """Start the engine; :meth:`wait_ready` says when it serves."""
        if self._guard is not None:
            raise RuntimeError("an engine process is started once")
        argv = command(self.options)
        environ = environment(self.options, self._environ)
        log_path = self.options.log_path
        # On a GPU the temporary folder also holds compiled kernels, which the next start reuses.
        scratch = self.options.on_cpu
        if log_path is None:
            self._guard = start_guarded(argv, env=environ, scratch=scratch)
            return
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as log:
            self._guard = start_guarded(argv, env=environ, output=log, scratch=scratch)

    def is_alive(self) -> bool:
        """Whether the engine's main process runs."""
        return self._guard is not None and self._guard.poll() is None

    def is_healthy(self, timeout_s: float = _HEALTH_TIMEOUT_S) -> bool:
        """Whether ``GET /health`` answers 200 in time. Blocks for at most ``timeout_s``."""
        return _answers(f"{self.url}/health", timeout_s)

    def wait_ready(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> float:
        """Block until the engine serves; the answer is how long that took, in seconds.

        Raises :class:`EngineExited` as soon as the process ends and :class:`EngineNotReady` at the
        time-out; the engine is then still running.
        """
        began_s = clock()
        while clock() - began_s < timeout_s:
            self.raise_if_dead()
            if self.is_healthy():
                return clock() - began_s
            self._wait_exit(READY_POLL_S)
        raise EngineNotReady(f"the engine at {self.url} was not ready after {timeout_s:g} s")

    def raise_if_dead(self) -> None:
        """Raise :class:`EngineExited` with the last lines of the log unless the engine runs."""
        if self._guard is None:
            raise EngineExited("the engine was not started", ())
        status = self._guard.poll()
        if status is not None:
            tail = self.log_tail()
            raise EngineExited(f"the engine exited with status {status}{_cause(tail)}", tail)

    def stop(self, grace_s: float = 5.0) -> None:
        """End the engine: ask, wait ``grace_s`` seconds, kill. Harmless when it is not running."""
        guard = self._guard
        if guard is None:
            return
        if guard.poll() is None and grace_s > 0:
            guard.terminate()
            self._wait_exit(grace_s)
        if guard.stdin is not None:
            guard.stdin.close()
        guard.wait(_KILL_TIMEOUT_S)

    def log_tail(self) -> tuple[str, ...]:
        """The last lines of the log, without those that may quote a request."""
        if self.options.log_path is None:
            return ()
        return read_log_tail(self.options.log_path)

    def _wait_exit(self, timeout_s: float) -> None:
        if self._guard is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout_s)


def read_log_tail(path: Path) -> tuple[str, ...]:
    """The last few lines of an engine's log, without those that may quote a request."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except FileNotFoundError:
        return ()
    lines = [line.rstrip()[:_TAIL_LINE_CHARS] for line in text.splitlines() if line.strip()]
    return tuple(line for line in lines if not _QUOTES_A_REQUEST.search(line))[-_TAIL_LINES:]


def _cause(tail: tuple[str, ...]) -> str:
    """The last line of a log that names an error, for an error message."""
    causes = [line for line in tail if _NAMES_AN_ERROR.match(line)]
    return f": {causes[-1]}" if causes else ""


def _answers(url: str, timeout_s: float) -> bool:
    # An empty handler: a proxy from the environment must not stand between us and our child.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False
