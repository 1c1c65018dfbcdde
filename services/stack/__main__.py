"""``python -m services.stack SETTINGS``: one stack, as :mod:`services.stack.launch` starts it."""

from __future__ import annotations

import signal
import sys
import threading

from services.stack.errors import StackFailed, StackRefused
from services.stack.launch import from_json
from services.stack.up import run_stack

REFUSED = 2
FAILED = 1


def main(text: str) -> int:
    """Run the stack that ``text`` describes; the answer is the exit status."""
    stop = threading.Event()

    def install_signals() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())

    try:
        run_stack(from_json(text), stop, lambda line: print(line, flush=True), install_signals)
    except (StackRefused, StackFailed) as problem:
        print(f"pbkv: {problem}", file=sys.stderr, flush=True)
        return REFUSED if isinstance(problem, StackRefused) else FAILED
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
