"""Runs a stack in a process of its own under a guard, so that nothing of it can be left behind.

Ray alone starts half a dozen processes, some of which outlive a killed driver. The guard is a
subreaper and kills all that descends from the stack when the stack's process ends, or this one.
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from services.guard import start_guarded
from services.stack.settings import StackSettings


def launch(settings: StackSettings) -> int:
    """Run ``settings`` until SIGINT, SIGTERM or a failure; the answer is the exit status.

    A second signal ends everything at once. From the main thread only.
    """
    # One temporary folder for all: what killed processes leave in it goes with it.
    argv = [sys.executable, "-m", "services.stack", to_json(settings)]
    guard = start_guarded(argv, scratch=True)
    signals: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        if len(signals) == 1:
            guard.terminate()
        elif guard.stdin is not None:
            guard.stdin.close()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return guard.wait()


def to_json(settings: StackSettings) -> str:
    return json.dumps(asdict(settings), default=str)


def from_json(text: str) -> StackSettings:
    """What :func:`to_json` wrote."""
    values = json.loads(text)
    for name in ("model_cache_dir", "state_dir"):
        if values[name] is not None:
            values[name] = Path(values[name])
    return StackSettings(**{**values, "engine_args": tuple(values["engine_args"])})
