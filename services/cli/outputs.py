"""Files that a command writes at its end: whether it can, said before its work and not after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from services.cli.problem import refuse

_KEY_OPTION = "--api-key"
_PROBE_BYTES = 2**16
# A full disk still takes names, and the error of a write does not say of which file.
_UNNAMED = "the results"


def check_writable(path: Path | None) -> None:
    """Write something beside ``path`` and remove it; ends the command where that fails."""
    if path is None:
        return
    if path.is_dir():
        refuse(f"cannot write {path}: it is a folder")
    probe = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            probe.write_bytes(bytes(_PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as problem:
        refuse(f"cannot write {path}: {problem.strerror}")


def cannot_write(problem: OSError) -> str:
    """The line for a file that could not be written in the end."""
    return f"cannot write {problem.filename or _UNNAMED}: {problem.strerror}"


def without_key(words: Sequence[str]) -> list[str]:
    """The words of a command as they may be shown to others."""
    return list(_hidden(words))


def _hidden(words: Sequence[str]) -> Iterator[str]:
    before = ""
    for word in words:
        if before == _KEY_OPTION:
            yield "..."
        elif word.startswith(f"{_KEY_OPTION}="):
            yield f"{_KEY_OPTION}=..."
        else:
            yield word
        before = word
