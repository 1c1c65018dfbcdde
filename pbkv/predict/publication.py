"""A folder of published checkpoints, as its readers see it.

::

    folder/
      current        one line: the name of the version in use
      versions/
        000001...    a checkpoint, file or folder, that never changes once it is named

Whoever publishes writes a version and then replaces ``current`` by a rename: a reader sees the old
version or the new one, whole.
"""

from __future__ import annotations

from pathlib import Path

from pbkv.errors import InvalidCheckpoint

CURRENT = "current"
VERSIONS = "versions"


def is_publication(path: Path) -> bool:
    """Whether ``path`` is such a folder, or an empty one that may become it."""
    return (path / VERSIONS).is_dir() or (path.is_dir() and not any(path.iterdir()))


def resolve_checkpoint(path: Path) -> Path | None:
    """The checkpoint that ``path`` stands for: itself, or the version that is published in it.

    None for a folder in which nothing is published yet. Raises :class:`InvalidCheckpoint`.
    """
    if not is_publication(path):
        return path
    try:
        name = (path / CURRENT).read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise InvalidCheckpoint(f"{path / CURRENT} cannot be read") from None
    version = path / VERSIONS / name
    if not name or name != Path(name).name or not version.exists():
        raise InvalidCheckpoint(f"{path / CURRENT} names {name[:40]!r}, which is not there")
    return version
