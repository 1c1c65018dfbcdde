"""Refuse to start on an SGLang whose internals the plug-in was not written for."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import NoReturn

from pbkv.sglang import SUPPORTED_SGLANG


def version_problem() -> str | None:
    """One line that says what is wrong with the installed SGLang, or None."""
    installed = version("sglang")
    if installed == SUPPORTED_SGLANG:
        return None
    return (
        f"pbkv supports sglang=={SUPPORTED_SGLANG}, but {installed} is installed; "
        f"install the supported version or start without --radix-cache-backend pbkv"
    )


def stop_start(message: str) -> NoReturn:
    """End the start of the engine with one line and exit code 2.

    SystemExit, because SGLang logs and swallows every other exception of a plug-in and would go on
    without it.
    """
    print(f"pbkv: {message}", file=sys.stderr, flush=True)
    raise SystemExit(2)
