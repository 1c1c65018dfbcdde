"""How the command line ends on input it cannot use: one line and exit code 2."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

BAD_INPUT = 2


def named_values(pairs: Sequence[str] | None) -> dict[str, str]:
    """Options given as NAME=VALUE; ends the command on one that is not."""
    values: dict[str, str] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            refuse(f"{pair[:80]!r} is not of the form NAME=VALUE")
        values[name] = value
    return values


def check_writable(*paths: Path | None) -> None:
    """Refuse files that cannot be written before anything is measured for them.

    Makes the folders that they need. A None is an option that was not given.
    """
    for path in paths:
        if path is None:
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            refuse(f"cannot write {path}: {problem.strerror}")
        if path.is_dir():
            refuse(f"cannot write {path}: it is a folder")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            refuse(f"cannot write {path}: permission denied")


def refuse(message: str) -> NoReturn:
    """Print ``message`` as one line on standard error and end with exit code 2."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    typer.echo(f"pbkv: {lines[0] if lines else 'failed'}", err=True)
    raise typer.Exit(BAD_INPUT)
