"""What ``pbkv train`` does with traces: those of a file, or of a cluster until told to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pbkv.errors import InvalidTrace, PbkvError
from pbkv.trace import read_traces, workflows_of
from services.training.errors import TrainingError
from services.training.follow import Decision, Follower, FollowSettings, follow
from services.training.publication import CheckpointFolder
from services.training.stream import TraceStream
from services.training.trainer import MarkovTrainer, Trainer


def make_trainer(
    family: str, variant: str = "", *, steps: int = 3, seed: int = 0, epochs: int = 60
) -> Trainer:
    """The trainer of a family, ``markov`` or one of :mod:`pbkv.predict.families`.

    Raises :class:`pbkv.errors.SettingsError` for an unknown name.
    """
    if family == "markov":
        return MarkovTrainer(steps=steps)
    # Imported here: it needs torch.
    from pbkv.predict.training import TrainingPlan
    from services.training.network_trainer import NetworkTrainer

    plan = TrainingPlan(epochs=epochs)
    return NetworkTrainer(family, variant, steps=steps, seed=seed, plan=plan)


def train_on_traces(path: Path, checkpoint: Path, trainer: Trainer, *, test: int) -> str:
    """Learn from a trace file, all but its newest ``test`` workflows; what those say of it.

    Raises :class:`pbkv.errors.PbkvError` and OSError.
    """
    workflows = [w for w in workflows_of(read_traces(path)) if w.ended and w.served]
    if len(workflows) <= test:
        raise InvalidTrace(
            f"{path} has {len(workflows)} finished workflows; that is not more than the {test} to "
            f"test on"
        )
    trainer.fit(workflows[:-test], checkpoint)
    score = trainer.score(checkpoint, workflows[-test:])
    accuracies = ", ".join(f"s{k} {value:.3f}" for k, value in enumerate(score.accuracy, start=1))
    return f"{checkpoint}: learnt from {len(workflows) - test} workflows; {accuracies}"


def run_follow(
    redis_url: str,
    folder: Path,
    trainer: Trainer,
    settings: FollowSettings,
    say: Callable[[str], None],
    *,
    keep: int = 5,
) -> None:
    """Follow the traces in ``redis_url`` and publish to ``folder`` until SIGINT or SIGTERM.

    Engines take what is published into use if ``predictor_checkpoint`` is ``folder``.
    Raises :class:`services.training.errors.TrainingError`; only in the main thread.
    """
    checkpoints = CheckpointFolder(folder, keep=keep)
    stream = TraceStream(redis_url)
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    say(f"following the traces; publishing to {folder}, in use: {checkpoints.current() or 'none'}")
    try:
        follower = Follower(trainer, checkpoints, settings)
        follow(stream, follower, stopped, lambda decision: say(describe(decision)))
    finally:
        stream.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def describe(decision: Decision) -> str:
    """One line of what a round came to."""
    served = "none" if decision.served is None else f"{decision.served:.3f}"
    drifted = ", drifted" if decision.drifted else ""
    return (
        f"{decision.action.value} {decision.version or '-'}: candidate {decision.candidate:.3f}, "
        f"served {served}{drifted}; trained on {decision.trained_on} workflows, "
        f"judged by {decision.held_out}"
    )


@contextmanager
def refusing(refuse: Callable[[str], NoReturn]) -> Iterator[None]:
    """Hand what a person can put right to ``refuse``, as one line."""
    try:
        yield
    except (PbkvError, TrainingError) as problem:
        refuse(str(problem))
    except OSError as problem:
        refuse(f"{problem.filename}: {problem.strerror}")
