"""Rows that were measured before, so that a run cut short goes on where it was.

One JSON line per row, keyed by all that decides it: the cell, and the code that simulates it.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

import pbkv

_DECIDING = ("policy", "predict", "sim", "trace", "workload")
"""Packages of ``pbkv`` whose code a simulated number depends on."""


class RowLedger:
    """Appends to ``path`` and answers from it. A last line that was cut off is passed over."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._rows: dict[str, Any] = {}
        if path.exists():
            for line in path.read_bytes().splitlines():
                try:
                    entry = orjson.loads(line)
                    self._rows[entry["key"]] = entry["row"]
                except (ValueError, KeyError, TypeError):
                    continue
        # A line that was cut off must not swallow the next one.
        self._file = path.open("ab")
        self._file.write(b"\n")

    def get(self, what: object) -> Any | None:
        """The row of ``what`` under the present code."""
        return self._rows.get(_key(what))

    def add(self, what: object, row: Any) -> None:
        key = _key(what)
        self._rows[key] = row
        self._file.write(orjson.dumps({"key": key, "row": row}) + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _key(what: object) -> str:
    return blake2b(f"{code_fingerprint()}/{what!r}".encode(), digest_size=16).hexdigest()


@cache
def code_fingerprint() -> str:
    """Changes with every change of the code or the data that simulations are made of."""
    root = Path(pbkv.__file__).parent
    digest = blake2b(digest_size=16)
    folders = [root / name for name in _DECIDING]
    files = [*root.glob("*.py"), *(file for folder in folders for file in folder.rglob("*.*"))]
    for file in sorted(files):
        if file.suffix in (".py", ".toml", ".json", ".jsonl"):
            digest.update(file.read_bytes())
    return digest.hexdigest()
