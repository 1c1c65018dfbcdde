"""Predictors of the next agents, selectable by name.

``markov`` learns while it serves. ``checkpoint`` serves what was trained before, of whatever family
the checkpoint is. A name such as ``my_package.forecasts:make`` is a predictor from
outside: the function ``make`` in that module is called with the settings and returns one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from pbkv.errors import SettingsError
from pbkv.forecast import Predictor
from pbkv.predict.markov import MarkovPredictor
from pbkv.settings import PolicySettings

NO_PREDICTOR = "none"
CHECKPOINT_PREDICTOR = "checkpoint"


def _make_markov(settings: PolicySettings) -> Predictor:
    steps = settings.lookahead_steps
    if settings.predictor_checkpoint:
        return MarkovPredictor.load(Path(settings.predictor_checkpoint), steps=steps)
    return MarkovPredictor(steps=steps)


def _load_checkpoint(settings: PolicySettings) -> Predictor:
    if not settings.predictor_checkpoint:
        raise SettingsError("predictor checkpoint needs predictor_checkpoint")
    path = Path(settings.predictor_checkpoint)
    if not path.is_dir():
        return MarkovPredictor.load(path, steps=settings.lookahead_steps)
    try:
        # Imported here: it needs torch, and the core does not.
        module = import_module("pbkv.predict.network_predictor")
    except ImportError as problem:
        raise SettingsError(f"checkpoint {path} needs torch: {problem}") from None
    predictor: Predictor = module.NetworkPredictor.load(path, steps=settings.lookahead_steps)
    return predictor


PREDICTORS: dict[str, Callable[[PolicySettings], Predictor]] = {
    "markov": _make_markov,
    CHECKPOINT_PREDICTOR: _load_checkpoint,
}


def make_predictor(settings: PolicySettings) -> Predictor | None:
    """The predictor that ``settings`` names, None for ``none``.

    Raises :class:`SettingsError` for a name that is unknown, listing the choices, and for a
    checkpoint that cannot be read.
    """
    make = _find(settings.predictor)
    return None if make is None else make(settings)


def check_predictor(settings: PolicySettings) -> None:
    """Raise what :func:`make_predictor` would, in a process that will not use the predictor.

    A predictor from outside is only imported: making it may take a GPU.
    """
    make = _find(settings.predictor)
    if make is not None and settings.predictor in PREDICTORS:
        make(settings)


def _find(name: str) -> Callable[[PolicySettings], Predictor] | None:
    if name == NO_PREDICTOR:
        return None
    if ":" in name:
        return _imported(name)
    if name not in PREDICTORS:
        raise SettingsError(
            f"unknown predictor {name!r}; choose one of: "
            f"{', '.join((NO_PREDICTOR, *PREDICTORS))}, or module:function"
        )
    return PREDICTORS[name]


def _imported(name: str) -> Callable[[PolicySettings], Predictor]:
    module, _, function = name.partition(":")
    try:
        make: Callable[[PolicySettings], Predictor] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as problem:
        raise SettingsError(f"predictor {name!r} cannot be imported: {problem}") from None
    return make


__all__ = [
    "CHECKPOINT_PREDICTOR",
    "NO_PREDICTOR",
    "PREDICTORS",
    "MarkovPredictor",
    "Predictor",
    "check_predictor",
    "make_predictor",
]
