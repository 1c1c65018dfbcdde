"""``python -m pbkv.clients [--framework NAME] app.py [argument ...]``: run it, unchanged."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from pbkv.clients.ending import finish
from pbkv.clients.install import FRAMEWORKS, install
from pbkv.errors import PbkvError

_USAGE = (
    "usage: python -m pbkv.clients [--framework "
    f"{{{','.join(FRAMEWORKS)}}}] (app.py | -m module) [argument ...]"
)


def main(words: list[str]) -> int:
    """The exit code, where the application does not set one itself."""
    frameworks: list[str] = []
    while words[:1] == ["--framework"] and len(words) > 1:
        frameworks += words[1].split(",")
        words = words[2:]
    module = words[:1] == ["-m"]
    words = words[1:] if module else words
    if not words or (not module and words[0].startswith("-")):
        print(_USAGE, file=sys.stderr)
        return 2
    try:
        install(*frameworks)
    except PbkvError as problem:
        print(f"pbkv.clients: {problem}", file=sys.stderr)
        return 2
    sys.argv = words
    try:
        if module:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            # As `python app.py` has it; here it is this command's folder.
            sys.path[0] = str(Path(words[0]).resolve().parent)
            runpy.run_path(words[0], run_name="__main__")
    finally:
        finish()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
