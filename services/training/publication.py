"""Publishes checkpoints for engines to follow, and goes back to earlier ones.

The folder's form is that of :mod:`pbkv.predict.publication`; beside it, ``reports/`` holds what was
known of each version when it was published.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from pbkv.predict.publication import CURRENT, VERSIONS
from pbkv.trace.whole_file import whole_file
from services.training.errors import InvalidPublication

_REPORTS = "reports"
_INCOMING = "incoming"


class CheckpointFolder:
    """The one writer of a folder of published checkpoints.

    ``keep`` versions stay for a rollback, the newest and the one in use among them. Raises
    :class:`InvalidPublication` for a folder that cannot be used.
    """

    def __init__(self, folder: Path, *, keep: int = 5) -> None:
        self.folder = folder
        self._keep = max(2, keep)
        try:
            for name in (VERSIONS, _REPORTS):
                (folder / name).mkdir(parents=True, exist_ok=True)
            # What a publication left that was broken off.
            shutil.rmtree(folder / _INCOMING, ignore_errors=True)
            (folder / _INCOMING).mkdir()
        except OSError as problem:
            raise InvalidPublication(f"{folder}: {problem.strerror}") from None

    def versions(self) -> list[str]:
        """Names of the versions that are there, oldest first."""
        return sorted(path.name for path in (self.folder / VERSIONS).iterdir())

    def current(self) -> str | None:
        """The version in use, None before the first publication."""
        try:
            name = (self.folder / CURRENT).read_text().strip()
        except FileNotFoundError:
            return None
        return name if name in self.versions() else None

    def path(self, version: str) -> Path:
        return self.folder / VERSIONS / version

    def report(self, version: str) -> Mapping[str, Any]:
        """What was written when that version was published, empty if nothing was."""
        try:
            found = orjson.loads((self.folder / _REPORTS / f"{version}.json").read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return {}
        return found if isinstance(found, dict) else {}

    def incoming(self, suffix: str) -> Path:
        """Where to write the next version, file or folder, before :meth:`publish`."""
        taken = [int(name.partition(".")[0]) for name in self.versions() if name[0].isdecimal()]
        path = self.folder / _INCOMING / f"{max(taken, default=0) + 1:06d}{suffix}"
        _remove(path)
        return path

    def publish(self, incoming: Path, report: Mapping[str, Any]) -> str:
        """Make what was written to ``incoming`` the version in use; its name. Atomic."""
        version = incoming.name
        (self.folder / _REPORTS / f"{version}.json").write_bytes(orjson.dumps(dict(report)))
        incoming.replace(self.path(version))
        self.point_to(version)
        self._prune()
        return version

    def point_to(self, version: str) -> None:
        """Put a version that is there into use. Raises :class:`InvalidPublication`. Atomic."""
        if version not in self.versions():
            raise InvalidPublication(f"{self.folder} has no version {version[:40]!r}")
        with whole_file(self.folder / CURRENT) as partial:
            partial.write_text(f"{version}\n")

    def discard(self, incoming: Path) -> None:
        """``incoming`` will not be published."""
        _remove(incoming)

    def _prune(self) -> None:
        current = self.current()
        for version in self.versions()[: -self._keep]:
            if version != current:
                _remove(self.path(version))
                (self.folder / _REPORTS / f"{version}.json").unlink(missing_ok=True)


def fit_into(folder: CheckpointFolder, suffix: str, fit: Callable[[Path], None]) -> Path:
    """Let ``fit`` write a candidate; nothing stays if it fails."""
    path = folder.incoming(suffix)
    try:
        fit(path)
    except BaseException:
        folder.discard(path)
        raise
    return path


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
