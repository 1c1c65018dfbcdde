"""``pbkv version``."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import typer

import pbkv

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_ENGINE_PARTS = ("sglang", "torch", "ray")


@app.command()
def show() -> None:
    """Show the versions of the stack and the engine."""
    typer.echo(f"pbkv {pbkv.__version__}")
    for part in _ENGINE_PARTS:
        try:
            typer.echo(f"{part} {version(part)}")
        except PackageNotFoundError:
            typer.echo(f"{part} is not installed")
