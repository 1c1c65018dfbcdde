"""A child of the stack is started again when it dies, with pauses on a clock of the test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from services.stack.child import Child
from tests.unit.services.processes import read_pid, runs
from tests.waiting import wait_until

SLEEP = "import os,sys,time; open(sys.argv[1],'a').write(f'{os.getpid()}\\n'); time.sleep(600)"


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def said() -> list[str]:
    return []


def make(
    tmp_path: Path, say: Callable[[str], None], clock: Clock, code: str, *words: object
) -> Child:
    argv = [sys.executable, "-c", code, *map(str, words)]
    log = tmp_path / "child.log"
    return Child("thing", argv, environ=os.environ, log_path=log, say=say, clock=clock)


def test_a_killed_child_comes_back(tmp_path: Path, said: list[str]) -> None:
    clock = Clock()
    child = make(tmp_path, said.append, clock, SLEEP, tmp_path / "pid")
    child.start()
    first = read_pid(tmp_path / "pid")
    child.tick()
    assert said == []
    os.kill(first, 9)
    wait_until(lambda: child.returncode is not None)
    (tmp_path / "pid").unlink()
    clock.now_s = 100.0
    child.tick()
    assert said == ["thing ended with status 137; starting it again"]
    assert child.returncode is not None
    clock.now_s = 100.2
    child.tick()
    second = read_pid(tmp_path / "pid")
    assert second != first
    assert runs(second)
    child.stop(grace_s=5)
    assert not runs(second)


def test_pauses_grow_while_it_keeps_dying(tmp_path: Path, said: list[str]) -> None:
    clock = Clock()
    child = make(tmp_path, said.append, clock, "print('cannot bind'); raise SystemExit(1)")
    child.start()
    pauses: list[float] = []
    for _ in range(7):
        wait_until(lambda: child.returncode is not None)
        child.tick()
        assert child.restart_at_s is not None
        pauses.append(child.restart_at_s - clock.now_s)
        clock.now_s = child.restart_at_s
        child.tick()
        assert child.restart_at_s is None
    child.stop(grace_s=0)
    assert pauses == pytest.approx([0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0])
    assert len(said) == 7
    assert child.last_line() == "cannot bind"
