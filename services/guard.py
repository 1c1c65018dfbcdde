"""Runs one command and never outlives its parent, nor lets the command's descendants do so.

``python guard.py COMMAND ...`` with a pipe as standard input whose other end the parent holds:

* end of file on the pipe (the parent closed it, or died in whatever way, kill -9 included), or
  another parent than at the start: every descendant is killed, at once;
* SIGTERM or SIGINT: passed on to the command, which may take its time;
* the command ended: what it left behind is killed, and its exit status becomes that of the guard.

With ``--scratch`` before the command, temporary files of the command and its descendants go to a
folder that the guard removes at the end: a killed process cannot remove its own.

A parent-death signal alone would not do. It is bound to the thread that forked, so it would end
an engine whose starter thread ends; and a grandchild that has not asked for one yet, as the
engine's workers have not during their first seconds, would survive. The guard is a subreaper:
whatever is orphaned below it becomes its own child. Should the guard itself be killed, the
parent-death signal that it sets on the command takes over; the guard has a single thread.

It uses the standard library alone and starts in some 20 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PARENT_CHECK_MS = 1000
_SWEEP_PAUSE_S = 0.01
_SCRATCH = "--scratch"


def start_guarded(
    argv: Sequence[str],
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    output: IO[bytes] | int | None = None,
    scratch: bool = False,
    own_session: bool = True,
) -> subprocess.Popen[bytes]:
    """Start ``argv`` under a guard, in a session of its own or else in a process group of its own.

    The answer is the guard: its exit status is the command's, SIGTERM to it reaches the command,
    and closing its ``stdin`` kills the command and all its descendants. ``scratch`` gives them a
    temporary folder that lives as long as they do.
    """
    options = [_SCRATCH] if scratch else []
    # -I -S: the guard must start whatever the environment and site of the command are.
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, *options, *argv],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
        env=env,
        cwd=cwd,
        start_new_session=own_session,
        process_group=None if own_session else 0,
    )


def main(argv: list[str]) -> int:
    """Guard the command ``argv`` until it ends or the parent does."""
    if argv[0] != _SCRATCH:
        return guard(argv)
    folder = tempfile.mkdtemp(prefix="pbkv-")
    os.environ["TMPDIR"] = folder
    try:
        return guard(argv[1:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def guard(argv: list[str]) -> int:
    """Run ``argv``; the answer is its exit status in the shell's notation."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write)
    pending: list[int] = []
    # A signal that the parent blocks would stay blocked here, and in the command.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: pending.append(received))
    signal.signal(signal.SIGCHLD, lambda _received, _frame: None)

    def die_with_guard() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    try:
        command = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_guard,  # noqa: PLW1509  (a single thread)
        )
    except OSError as problem:
        print(f"cannot start {argv[0]}: {problem.strerror}", file=sys.stderr, flush=True)
        return 127
    poller = select.poll()
    poller.register(0, select.POLLIN | select.POLLHUP)
    poller.register(wake_read, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll(_PARENT_CHECK_MS):
            if descriptor == wake_read:
                _drain(wake_read)
            elif not os.read(0, 64):
                return _kill_descendants()
        if os.getppid() != parent:
            return _kill_descendants()
        while pending:
            command.send_signal(pending.pop(0))
        _reap_orphans(command.pid)
        status = command.poll()
        if status is not None:
            _kill_descendants()
            return status if status >= 0 else 128 - status


def _drain(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 512):
            pass


def _reap_orphans(command_pid: int) -> None:
    """Collect descendants that ended here, all but the command, whose status Popen collects."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == command_pid:
            return
        os.waitpid(ended.si_pid, os.WNOHANG)


def _kill_descendants() -> int:
    """Kill all children until there are none: those of a killed child become ours in turn."""
    signal.set_wakeup_fd(-1)
    while True:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(_SWEEP_PAUSE_S)
        except ChildProcessError:
            return 128 + signal.SIGKILL


def _children() -> list[int]:
    """Direct children of this process, dead ones included."""
    me = os.getpid()
    children: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may itself hold spaces and parentheses.
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == me:
            children.append(int(entry.name))
    return children


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
