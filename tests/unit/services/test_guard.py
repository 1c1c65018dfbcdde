"""The guard, with real processes: whatever dies, nothing below it stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.guard import start_guarded
from tests.unit.services.processes import read_pid, runs
from tests.waiting import wait_until

WRITE_PID = "import os,sys,time; open(sys.argv[1],'w').write(f'{os.getpid()}\\n')"
SLEEP = f"{WRITE_PID}; time.sleep(600)"
# Starts a grandchild in a session of its own, which no signal to a process group reaches.
PARENT_OF_DAEMON = (
    f"import subprocess,sys; {WRITE_PID}; "
    f"subprocess.Popen([sys.executable,'-c',{SLEEP!r},sys.argv[2]],start_new_session=True); "
)


@pytest.fixture
def pid_files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "command.pid", tmp_path / "daemon.pid"


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def test_exit_status_is_that_of_the_command() -> None:
    assert start_guarded(python("raise SystemExit(7)")).wait() == 7


def test_death_by_a_signal_is_told_as_the_shell_does() -> None:
    assert start_guarded(python("import os; os.kill(os.getpid(), 9)")).wait() == 137


def test_a_command_that_does_not_exist_is_127() -> None:
    guard = start_guarded(["/no/such/program"], output=subprocess.DEVNULL)
    assert guard.wait() == 127


def test_sigterm_reaches_the_command_which_may_take_its_time(tmp_path: Path) -> None:
    code = (
        "import signal,sys,time; "
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(.2), sys.exit(5))); "
        f"{SLEEP}"
    )
    guard = start_guarded(python(code, tmp_path / "pid"))
    read_pid(tmp_path / "pid")
    guard.terminate()
    assert guard.wait() == 5


def test_closing_the_pipe_kills_all_descendants(pid_files: tuple[Path, Path]) -> None:
    guard = start_guarded(python(f"{PARENT_OF_DAEMON} time.sleep(600)", *pid_files))
    command, daemon = map(read_pid, pid_files)
    assert guard.stdin is not None
    guard.stdin.close()
    guard.wait()
    assert not runs(command)
    assert not runs(daemon)


def test_what_the_command_leaves_behind_is_killed(pid_files: tuple[Path, Path]) -> None:
    wait_for_daemon = (
        "import pathlib\nwhile not pathlib.Path(sys.argv[2]).exists(): time.sleep(.01)"
    )
    guard = start_guarded(python(f"{PARENT_OF_DAEMON}\n{wait_for_daemon}", *pid_files))
    assert guard.wait() == 0
    assert not runs(read_pid(pid_files[1]))


def test_kill_9_of_the_parent_kills_all(pid_files: tuple[Path, Path]) -> None:
    command_line = python(f"{PARENT_OF_DAEMON} time.sleep(600)", *pid_files)
    start = (
        "import time; from services.guard import start_guarded; "
        f"guard = start_guarded({command_line!r}); time.sleep(600)"
    )
    parent = subprocess.Popen(python(start))
    try:
        command, daemon = map(read_pid, pid_files)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not runs(command) and not runs(daemon))


def test_kill_9_of_the_guard_takes_the_command_along(tmp_path: Path) -> None:
    guard = start_guarded(python(SLEEP, tmp_path / "pid"))
    command = read_pid(tmp_path / "pid")
    guard.kill()
    guard.wait()
    wait_until(lambda: not runs(command))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_scratch_folder_is_removed_even_when_the_command_is_killed(
    tmp_path: Path, how: signal.Signals
) -> None:
    code = f"import tempfile; open(sys.argv[2],'w').write(tempfile.mkdtemp()); {WRITE_PID}"
    guard = start_guarded(
        python(f"import sys; {code}; time.sleep(600)", tmp_path / "pid", tmp_path / "folder"),
        scratch=True,
    )
    command = read_pid(tmp_path / "pid")
    folder = Path((tmp_path / "folder").read_text())
    assert folder.is_dir()
    assert folder.parent.name.startswith("pbkv-")
    subprocess.run(["kill", f"-{how}", str(command)], check=True)
    assert guard.wait() == 128 + how
    assert not folder.parent.exists()
