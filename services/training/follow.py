"""Learns from the trace stream of a running cluster, and publishes what is better.

Every ``train_every`` finished workflows a candidate is fitted to the older part of the window, and
judged with the version in use, and with the earlier ones that are kept, by the newest part, which
none of them has seen:

* a candidate that beats the version in use by ``min_gain`` is published;
* the version in use has *drifted* if it is worse by ``drift`` than when it was published; then, if
  no candidate is better, an earlier version that is better now comes back;
* else nothing changes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pbkv.errors import PbkvError
from pbkv.trace import InvocationRecord, WorkflowTrace
from services.training.errors import InvalidFollow, StreamAway
from services.training.publication import CheckpointFolder, fit_into
from services.training.stream import TraceStream
from services.training.trainer import Score, Trainer
from services.training.window import TraceWindow, with_hidden_states

logger = logging.getLogger(__name__)

_RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """``window``, ``held_out`` and ``train_every`` count workflows; ``min_gain`` and ``drift`` are
    shares of mean top-1 accuracy. ``hidden_dir`` is where replicas write their hidden states.
    """

    window: int = 5_000
    held_out: int = 200
    train_every: int = 100
    min_gain: float = 0.005
    drift: float = 0.05
    idle_timeout_s: float = 600.0
    hidden_dir: Path | None = None

    def __post_init__(self) -> None:
        for name in ("held_out", "train_every"):
            if getattr(self, name) < 1:
                raise InvalidFollow(f"{name} is {getattr(self, name)}; it must be at least 1")
        least = self.held_out + self.train_every
        if self.window < least:
            raise InvalidFollow(
                f"window is {self.window}; it must hold held_out and train_every, {least}"
            )
        for name in ("min_gain", "drift"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidFollow(f"{name} is {getattr(self, name)}; it must be 0 to 1")
        if not self.idle_timeout_s > 0.0:
            raise InvalidFollow(f"idle_timeout_s is {self.idle_timeout_s}; it must be above 0")


class Action(StrEnum):
    """What was done about the version in use."""

    PUBLISHED = "published"
    KEPT = "kept"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True, slots=True)
class Decision:
    """What one round found. ``version`` is in use after it; scores are mean top-1 accuracies on
    the held-out workflows, ``served`` that of the version in use before, None if there was none.
    """

    action: Action
    version: str | None
    candidate: float
    served: float | None
    drifted: bool
    trained_on: int
    held_out: int


class Follower:
    """The rolling window, the trainer and the folder. ``clock`` is the wall clock."""

    def __init__(
        self,
        trainer: Trainer,
        folder: CheckpointFolder,
        settings: FollowSettings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._trainer = trainer
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self.window = TraceWindow(settings.window, idle_timeout_s=settings.idle_timeout_s)
        self._considered = 0

    def take(self, records: Iterable[InvocationRecord]) -> None:
        """Records of the stream."""
        self.window.add(records)

    def consider(self) -> Decision | None:
        """Train and decide, if enough workflows finished since the last time.

        Raises :class:`PbkvError` if this window cannot be learnt from; nothing changed then.
        """
        settings = self._settings
        self.window.advance(self._clock())
        if len(self.window.finished) < settings.held_out + settings.train_every:
            return None
        if self.window.total_finished - self._considered < settings.train_every:
            return None
        self._considered = self.window.total_finished
        learn, judge = self.window.split(settings.held_out)
        if settings.hidden_dir is not None:
            learn = with_hidden_states(learn, settings.hidden_dir)
            judge = with_hidden_states(judge, settings.hidden_dir)
        candidate = fit_into(
            self._folder, self._trainer.suffix, lambda path: self._trainer.fit(learn, path)
        )
        try:
            return self._decide(candidate, learn, judge)
        finally:
            self._folder.discard(candidate)

    def _decide(
        self, candidate: Path, learn: list[WorkflowTrace], judge: list[WorkflowTrace]
    ) -> Decision:
        settings, folder = self._settings, self._folder
        score = self._trainer.score(candidate, judge)
        current = folder.current()
        served = None if current is None else self._score(current, judge)
        drifted = current is not None and self._has_drifted(current, served)
        action = Action.KEPT
        if served is None or score.mean_accuracy > served.mean_accuracy + settings.min_gain:
            action = Action.PUBLISHED
            current = folder.publish(candidate, _report(score, len(learn), len(judge)))
        elif drifted and (earlier := self._better(current, served, judge)) is not None:
            action, current = Action.ROLLED_BACK, earlier
            folder.point_to(earlier)
        return Decision(
            action=action,
            version=current,
            candidate=score.mean_accuracy,
            served=None if served is None else served.mean_accuracy,
            drifted=drifted,
            trained_on=len(learn),
            held_out=len(judge),
        )

    def _has_drifted(self, current: str, served: Score | None) -> bool:
        published_with = self._folder.report(current).get("mean_accuracy")
        return (
            served is not None
            and isinstance(published_with, float)
            and served.mean_accuracy < published_with - self._settings.drift
        )

    def _better(self, current: str | None, served: Score, judge: list[WorkflowTrace]) -> str | None:
        """The best version that is better than the one in use."""
        best, best_accuracy = None, served.mean_accuracy
        for version in self._folder.versions():
            score = None if version == current else self._score(version, judge)
            if score is not None and score.mean_accuracy > best_accuracy:
                best, best_accuracy = version, score.mean_accuracy
        return best

    def _score(self, version: str, judge: list[WorkflowTrace]) -> Score | None:
        """None for a version that cannot be read any more: it beats nobody."""
        try:
            return self._trainer.score(self._folder.path(version), judge)
        except PbkvError as problem:
            logger.warning("version %s cannot be judged: %s", version, problem)
            return None


def follow(
    stream: TraceStream,
    follower: Follower,
    stopped: threading.Event,
    on_decision: Callable[[Decision], None],
    *,
    poll_s: float = 1.0,
) -> None:
    """Read the stream and decide until ``stopped``. While Redis is away it waits."""
    away = False
    while not stopped.is_set():
        try:
            follower.take(stream.read_new(poll_s))
        except StreamAway as problem:
            if not away:
                logger.warning("%s; waiting for it", problem)
            away = True
            # It may come back without its data: then entries are numbered from below again.
            stream.rewind()
            stopped.wait(_RETRY_S)
            continue
        away = False
        try:
            decision = follower.consider()
        except PbkvError as problem:
            logger.warning("nothing was learnt this time: %s", problem)
            continue
        if decision is not None:
            on_decision(decision)


def _report(score: Score, trained_on: int, held_out: int) -> dict[str, Any]:
    return {
        "mean_accuracy": score.mean_accuracy,
        "accuracy": score.accuracy,
        "calibration_error": score.calibration_error,
        "trained_on": trained_on,
        "held_out": held_out,
    }
