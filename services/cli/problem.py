"""How the command line ends on input it cannot use: one line and exit code 2."""

from __future__ import annotations

from collections.abc import Sequence
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


def refuse(message: str) -> NoReturn:
    """Print ``message`` as one line on standard error and end with exit code 2."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    typer.echo(f"pbkv: {lines[0] if lines else 'failed'}", err=True)
    raise typer.Exit(BAD_INPUT)
