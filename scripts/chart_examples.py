#!/usr/bin/env python3
"""Renders charts/pbkv/examples/*/values.yaml, so that a change of the chart shows in its diff.

Usage: scripts/chart_examples.py [--check]   with --check nothing is written, 1 if it would change
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.kubernetes_tools import ToolsUnavailable, tool

CHART = Path(__file__).parents[1] / "charts" / "pbkv"
# Random at every rendering; in a cluster they are made once.
_GENERATED = re.compile(r"^(  password: )[A-Za-z0-9+/=]{40,}$", re.MULTILINE)


def examples() -> list[Path]:
    """Their folders, by name."""
    return sorted(path.parent for path in CHART.glob("examples/*/values.yaml"))


def render(helm: Path, folder: Path) -> str:
    """What the example installs, as release ``pbkv`` in namespace ``pbkv``."""
    argv = [str(helm), "template", "pbkv", str(CHART), "--namespace", "pbkv"]
    argv += ["--kube-version", "1.32.0", "--values", str(folder / "values.yaml")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{folder.name}: {done.stderr.strip()}")
    return _GENERATED.sub(r"\1R0VORVJBVEVE", done.stdout)


def main(arguments: list[str]) -> int:
    try:
        helm = tool("helm-4")
    except ToolsUnavailable as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    stale = []
    for folder in examples():
        path = folder / "rendered.yaml"
        wanted = render(helm, folder)
        if path.exists() and path.read_text() == wanted:
            continue
        stale.append(folder.name)
        if "--check" not in arguments:
            path.write_text(wanted)
    if "--check" in arguments and stale:
        print(f"out of date: {', '.join(stale)}; run scripts/chart_examples.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
