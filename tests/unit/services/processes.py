"""Processes that tests start by way of other processes."""

from __future__ import annotations

from pathlib import Path

from tests.waiting import wait_until


def runs(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def read_pid(path: Path) -> int:
    """The process id that another process writes to ``path``."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())
