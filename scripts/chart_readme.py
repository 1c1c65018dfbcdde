#!/usr/bin/env python3
"""Writes the table of values in charts/pbkv/README.md from the comments in values.yaml.

Usage: scripts/chart_readme.py [--check]   with --check nothing is written, 1 if it would change
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[1] / "charts" / "pbkv"
BEGIN = "<!-- values: written by scripts/chart_readme.py -->"
END = "<!-- /values -->"
_MARK = "# -- "


class UndocumentedValue(Exception):
    """A value without a comment; the text names it."""


def documented_values(text: str) -> Iterator[tuple[str, Any, str]]:
    """Path, default and description of every value that has a ``# --`` comment.

    Raises :class:`UndocumentedValue` for one without, unless something inside it has one.
    """
    lines = text.splitlines()
    yield from _walk(yaml.compose(text), "", lines, documented=False)


def _walk(
    node: yaml.Node, path: str, lines: list[str], *, documented: bool
) -> Iterator[tuple[str, Any, str]]:
    if isinstance(node, yaml.SequenceNode) and path and not documented:
        for item in node.value:
            yield from _walk(item, f"{path}[]", lines, documented=False)
        return
    if not isinstance(node, yaml.MappingNode):
        raise UndocumentedValue(path)
    for key, value in node.value:
        inner = f"{path}.{key.value}" if path else key.value
        comment = _comment_above(lines, key.start_mark.line)
        if comment:
            yield inner, _plain(value), comment
        else:
            yield from _walk(value, inner, lines, documented=False)


def _comment_above(lines: list[str], line: int) -> str:
    above = lines[line - 1].strip() if line else ""
    return above.removeprefix(_MARK) if above.startswith(_MARK) else ""


def _plain(node: yaml.Node) -> Any:
    return yaml.safe_load(yaml.serialize(node))


def table(text: str) -> str:
    """The table, in the order of values.yaml."""
    rows = ["| Value | Default | Meaning |", "|---|---|---|"]
    for path, default, meaning in documented_values(text):
        shown = "`" + json.dumps(default) + "`"
        rows.append(f"| `{path}` | {shown} | {meaning} |".replace("|max", "\\|max"))
    return "\n".join(rows)


def readme(current: str, values: str) -> str:
    """``current`` with its table replaced."""
    before, _, rest = current.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(values)}\n{END}{after}"


def main(arguments: list[str]) -> int:
    path = CHART / "README.md"
    current = path.read_text()
    wanted = readme(current, (CHART / "values.yaml").read_text())
    if "--check" in arguments:
        if current != wanted:
            print("charts/pbkv/README.md is out of date: scripts/chart_readme.py", file=sys.stderr)
        return int(current != wanted)
    path.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
