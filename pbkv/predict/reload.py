"""Takes a new checkpoint into use while the engine serves.

A thread of its own looks at the checkpoint's path, loads what is new, and hands the predictor over:
scheduler and forecasts go on with the old one until then, and for good if the new one is refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from pbkv.errors import InvalidCheckpoint, SettingsError
from pbkv.forecast import Predictor
from pbkv.predict.publication import resolve_checkpoint

logger = logging.getLogger(__name__)

Fingerprint = tuple[tuple[str, int, int, int], ...]


def check_fit(predictor: Predictor, hidden_size: int, source: str | None = None) -> None:
    """Raise :class:`InvalidCheckpoint` if ``predictor`` was made for other hidden states.

    A predictor that reads hidden states says by ``hidden_size`` how long they are and by
    ``hidden_source`` which they are; ``source`` is what this engine captures, None if anything.
    """
    if not predictor.wants_hidden_states:
        return
    wanted_source = getattr(predictor, "hidden_source", None)
    if None not in (source, wanted_source) and wanted_source != source:
        raise InvalidCheckpoint(
            f"the predictor's checkpoint {predictor.version} is for hidden states of "
            f"{wanted_source}; this engine captures those of {source}"
        )
    wanted = getattr(predictor, "hidden_size", None)
    if wanted is not None and wanted != hidden_size:
        raise InvalidCheckpoint(
            f"the predictor's checkpoint {predictor.version} is for hidden states of {wanted} "
            f"numbers; this model's have {hidden_size}"
        )


def fingerprint(path: Path) -> Fingerprint:
    """Changes whenever the checkpoint at ``path``, file or folder, is written again."""
    found = []
    for file in [path, *sorted(path.iterdir())] if path.is_dir() else [path]:
        status = file.stat()
        found.append((str(file), status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


class CheckpointWatch:
    """Tells when the checkpoint at ``path``, or the one published in it, is another."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._look()

    def changed(self) -> Path | None:
        """The checkpoint, if it changed since the last call; each change is told once."""
        found = self._look()
        if found is None or found == self._seen:
            return None
        self._seen = found
        return found[0]

    def _look(self) -> tuple[Path, Fingerprint] | None:
        """None while there is nothing that could be used: it is absent, or about to be replaced."""
        try:
            checkpoint = resolve_checkpoint(self._path)
            return None if checkpoint is None else (checkpoint, fingerprint(checkpoint))
        except (InvalidCheckpoint, OSError):
            return None


class PredictorReload:
    """The thread. ``load`` makes a predictor from a checkpoint, ``use`` takes it over.

    ``on_outcome`` hears True for every checkpoint that was taken into use and False for every one
    that was refused. A refused one is tried again only when it changes.
    """

    def __init__(
        self,
        watch: CheckpointWatch,
        load: Callable[[Path], Predictor],
        use: Callable[[Predictor], None],
        *,
        every_s: float,
        on_outcome: Callable[[bool], None] = lambda applied: None,
        name: str = "served",
    ) -> None:
        self._watch = watch
        self._load = load
        self._use = use
        self._every_s = every_s
        self._on_outcome = on_outcome
        self._name = name
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pbkv-reload-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Look no more, and wait for the thread."""
        self._stopped.set()
        self._thread.join()

    def look(self) -> None:
        """Take a new checkpoint into use, if there is one."""
        checkpoint = self._watch.changed()
        if checkpoint is None:
            return
        try:
            predictor = self._load(checkpoint)
        except SettingsError as problem:
            logger.warning("pbkv: kept the %s predictor in use: %s", self._name, problem)
            self._on_outcome(False)
        except Exception:
            # A predictor may be anyone's code; whatever is wrong with it, the old one serves on.
            logger.exception("pbkv: kept the %s predictor, %s failed", self._name, checkpoint)
            self._on_outcome(False)
        else:
            self._use(predictor)
            logger.warning(
                "pbkv: %s predictor is now %s, from %s", self._name, predictor.version, checkpoint
            )
            self._on_outcome(True)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self.look()
