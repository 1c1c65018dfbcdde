"""The end of a stack leaves no process behind, however it ends."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil

from tests.stack.running import RunningStack
from tests.waiting import wait_until


def test_sigterm_leaves_no_process(stack: RunningStack) -> None:
    """The last one to use the stack of the session. A replica of it may still be starting."""
    before = stack.processes()
    assert len(before) > 10
    stack.process.send_signal(signal.SIGTERM)
    assert stack.process.wait(60) == 0
    assert [process for process in before if process.is_running()] == []
    assert stack.processes() == []


def test_kill_9_while_the_engine_starts_leaves_no_process(tmp_path: Path) -> None:
    running = RunningStack(tmp_path, replicas=1, routers=1)
    try:
        running.wait_line("replicas: starting")
        # The worst moment: processes of the engine that do not yet follow their parent.
        wait_until(running.engine_processes)
        before = running.processes()
        running.process.kill()
        running.process.wait()
        _, alive = psutil.wait_procs(before, timeout=30)
        assert alive == []
        assert running.processes() == []
    finally:
        running.kill_leftovers()
