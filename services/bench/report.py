"""The results file that other tools read, and the table on the screen."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

SCHEMA = 1
_WIDTH = 180


def environment(**extra: Any) -> dict[str, Any]:
    """Where and with what a benchmark ran."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("pbkv", "sglang", "torch", "ray")},
        **extra,
    }


def write_json(
    path: Path, command: Sequence[str], env: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    """Write ``{"schema", "command", "environment", "rows"}``; a reader never sees a part."""
    content = {"schema": SCHEMA, "command": list(command), "environment": env, "rows": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
    partial.replace(path)


class ResultsFile:
    """A results file that grows: after every row it is whole, so that a run cut short keeps its
    rows. ``environment.finished`` says whether it was."""

    def __init__(self, path: Path | None, command: Sequence[str], env: dict[str, Any]) -> None:
        self._path = path
        self._command = command
        self._env = env
        self.rows: list[dict[str, Any]] = []
        # Before anything is measured, so that a path that cannot be written costs nothing.
        self._write(finished=False)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self._write(finished=False)

    def finish(self) -> None:
        """No more rows follow."""
        self._write(finished=True)

    def _write(self, *, finished: bool) -> None:
        if self._path is not None:
            write_json(self._path, self._command, {**self._env, "finished": finished}, self.rows)


def show(renderable: Any, console: Console | None = None) -> None:
    """Print for people; into a file or pipe with room for every column."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(renderable)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
