"""The entry point of ``pbkv``."""

from __future__ import annotations

import typer

from services.cli.lazy import LazyGroup

app = typer.Typer(
    name="pbkv",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def pbkv() -> None:
    """Serving for dynamic agent workflows."""


if __name__ == "__main__":
    app(prog_name="pbkv")
