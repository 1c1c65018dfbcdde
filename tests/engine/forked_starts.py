"""Starts of the server that share one import of SGLang, which takes ten seconds.

Run as a program it reads starts from its standard input, one JSON object a line, and answers each
with the exit code. Every start is a forked child, and so a process with nothing of the last one.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

SERVER = "sglang.launch_server"


class ForkedStarts:
    """The program, and how to ask it."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start(self, environ: dict[str, str], arguments: list[str], output: Path) -> int:
        """The exit code of a start that ends by itself; what it said is in ``output``."""
        asked = {"environ": environ, "arguments": arguments, "output": str(output)}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)


def _child(environ: dict[str, str], arguments: list[str], output: str) -> None:
    said = os.open(output, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.environ.update(environ)
    sys.argv = [SERVER, *arguments]
    runpy.run_module(SERVER, run_name="__main__")


def main() -> None:
    import sglang.launch_server
    import sglang.srt.entrypoints.http_server  # noqa: F401

    # It is run again as the main module of each child.
    del sys.modules[SERVER]
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _child(**json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
