"""A child process of the stack that is started again when it dies."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from services.guard import start_guarded

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_STEADY_S = 10.0
_KILL_TIMEOUT_S = 10.0


class Child:
    """One process under a guard (:mod:`services.guard`), its output appended to a log file.

    ``tick`` starts it again after it died, soon the first time and with growing pauses while it
    keeps dying within ``_STEADY_S`` of its start. ``restart_at_s`` is when, None while it runs.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        log_path: Path,
        say: Callable[[str], None],
        own_session: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self._argv = argv
        self._environ = environ
        self._say = say
        self._own_session = own_session
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self.restart_at_s: float | None = None

    @property
    def returncode(self) -> int | None:
        """Exit status, None while it runs or before the start."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = start_guarded(
                self._argv, env=dict(self._environ), output=log, own_session=self._own_session
            )
        self._started_s = self._clock()
        self.restart_at_s = None

    def tick(self) -> None:
        """Look after the process; call it often."""
        if self.returncode is None:
            return
        now_s = self._clock()
        if self.restart_at_s is None:
            steady = now_s - self._started_s >= _STEADY_S
            self._pause_s = _FIRST_PAUSE_S if steady else min(2 * self._pause_s, _LONGEST_PAUSE_S)
            self.restart_at_s = now_s + self._pause_s
            self._say(f"{self.name} ended with status {self.returncode}; starting it again")
        if now_s >= self.restart_at_s:
            self._close()
            self.start()

    def stop(self, grace_s: float) -> None:
        """Ask it to end, wait ``grace_s``, kill it with all its descendants."""
        process = self._process
        if process is None:
            return
        if process.poll() is None and grace_s > 0:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
        self._close()
        process.wait(_KILL_TIMEOUT_S)
        self._process = None

    def last_line(self) -> str:
        """The last line of its log, for an error message."""
        lines = (
            self.log_path.read_text(errors="replace").split("\n") if self.log_path.exists() else []
        )
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
