"""Subcommands that are imported when they are used, so that ``pbkv --help`` is quick."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from services.cli.problem import BAD_INPUT

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("services.cli.up:app", "Start the whole stack on this machine."),
    "serve": ("services.cli.serve:app", "Run one part of the stack: router, replica or engine."),
    "bench": ("services.cli.bench:app", "Measure policies on the real engine, and the router."),
    "trace": ("services.cli.trace:app", "Export, join, import and look at traces."),
    "replay": (
        "services.cli.replay:app",
        "Send the same calls through the simulator and SGLang.",
    ),
    "simulate": (
        "services.cli.simulate:app",
        "Simulate policies, queues and GPUs on this machine.",
    ),
    "experiments": (
        "services.cli.experiments:app",
        "Reproduce the paper's tables and figures in simulation.",
    ),
    "recommend": (
        "services.cli.recommend:app",
        "Find settings for a workload on a GPU by simulation.",
    ),
    "load": ("services.cli.load:app", "Send agent workflows to an endpoint and measure it."),
    "train": ("services.cli.train:app", "Train a predictor and write its checkpoint."),
    "evaluate": ("services.cli.evaluate:app", "Compare predictors: accuracy, calibration, cost."),
    "doctor": ("services.cli.doctor:app", "Check a cluster and a running stack, with fixes."),
    "version": ("services.cli.version:app", "Show the versions of the stack and the engine."),
}
"""Name -> where its Typer app is, and its line of help."""


# Typer carries its own Click under a private name; this is the base of Click's usage errors.
_UsageError: Any = typer.BadParameter.__base__
_NoArgsIsHelpError: Any = next(
    kind for kind in _UsageError.__subclasses__() if kind.__name__ == "NoArgsIsHelpError"
)
"""A group that was called without a command: its message is the help, in lines of its own."""


class LazyCommand(TyperCommand):
    """Stands for a command in the list and becomes it when it is called."""

    def __init__(self, name: str, target: str, help_text: str) -> None:
        super().__init__(name=name, help=help_text, add_help_option=False)
        self._target = target

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        module, _, attribute = self._target.partition(":")
        app: typer.Typer = getattr(importlib.import_module(module), attribute)
        return typer.main.get_command(app).make_context(info_name, args, parent=parent, **extra)


class LazyGroup(TyperGroup):
    """``pbkv`` itself. Bad usage is one line and exit code 2."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        if cmd_name not in COMMANDS:
            return None
        return LazyCommand(cmd_name, *COMMANDS[cmd_name])

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        if not extra.get("standalone_mode", True):
            return super().main(args, *rest, **extra)
        try:
            result = super().main(args, *rest, **{**extra, "standalone_mode": False})
        except _UsageError as problem:
            message = str(problem.format_message())
            if not isinstance(problem, _NoArgsIsHelpError):
                message = f"pbkv: {' '.join(message.split())}"
            typer.echo(message, err=True)
            raise SystemExit(BAD_INPUT) from None
        except typer.Abort:
            raise SystemExit(130) from None
        raise SystemExit(result if isinstance(result, int) else 0)
