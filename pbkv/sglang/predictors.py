"""Predictors of one engine: the one in use, its shadow, and how both take new checkpoints."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from pbkv.errors import InvalidCheckpoint, SettingsError
from pbkv.forecast import Predictor
from pbkv.hidden_source import NO_SOURCE, POST_NORM
from pbkv.policy import EvictionPolicy
from pbkv.predict import CHECKPOINT_PREDICTOR, PREDICTORS, check_predictor, make_predictor
from pbkv.predict.checkpoint import read_hidden_source
from pbkv.predict.publication import resolve_checkpoint
from pbkv.predict.reload import CheckpointWatch, PredictorReload, check_fit
from pbkv.predict.worker import ForecastWorker
from pbkv.settings import PolicySettings
from pbkv.sglang.forecasting import Forecaster
from pbkv.sglang.record import ForecastOutcome, Recorder
from pbkv.sglang.shadow import ShadowForecasts


def with_checkpoint(settings: PolicySettings) -> PolicySettings:
    """``settings`` with the checkpoint that is published now in place of the folder.

    In a folder where nothing is published yet there is no checkpoint: a predictor that learns while
    it serves begins with nothing. To a predictor from outside an empty folder may mean something,
    and it keeps it. Raises :class:`InvalidCheckpoint`.
    """
    if not settings.predictor_checkpoint:
        return settings
    checkpoint = resolve_checkpoint(Path(settings.predictor_checkpoint))
    if checkpoint is None and settings.predictor not in PREDICTORS:
        return settings
    return replace(settings, predictor_checkpoint="" if checkpoint is None else str(checkpoint))


def shadow_settings(settings: PolicySettings) -> PolicySettings | None:
    """The settings under which the shadow is the predictor; None without a shadow."""
    if not settings.shadow_checkpoint:
        return None
    return replace(
        settings,
        predictor=settings.shadow_predictor or "checkpoint",
        predictor_checkpoint=settings.shadow_checkpoint,
        shadow_predictor="",
        shadow_checkpoint="",
    )


def captured_source(settings: PolicySettings) -> str:
    """Which hidden states the engine captures: one source for predictor, shadow and traces.

    It is settled when the engine starts; a checkpoint that comes later must fit it. Raises
    :class:`InvalidCheckpoint` where checkpoints and ``hidden_source`` do not agree.
    """
    wanted = settings.hidden_source
    for each in filter(None, (settings, shadow_settings(settings))):
        checkpoint = with_checkpoint(each).predictor_checkpoint
        if not checkpoint or each.predictor not in PREDICTORS:
            continue
        source = read_hidden_source(Path(checkpoint))
        if source == NO_SOURCE:
            continue
        if wanted and source != wanted:
            raise InvalidCheckpoint(
                f"checkpoint {checkpoint} is for hidden states of {source}; this engine captures "
                f"those of {wanted}"
            )
        wanted = source
    return wanted or POST_NORM


def awaits_checkpoint(settings: PolicySettings) -> bool:
    """Whether the predictor is to come from a folder in which nothing is published yet."""
    return (
        settings.predictor == CHECKPOINT_PREDICTOR
        and bool(settings.predictor_checkpoint)
        and not with_checkpoint(settings).predictor_checkpoint
    )


def configured_hidden_size(model_path: str) -> int | None:
    """Length of the hidden states, as a model folder's config says; None where it does not say."""
    return _configured(model_path, "hidden_size")


def configured_layers(model_path: str) -> int | None:
    """Number of layers, likewise."""
    return _configured(model_path, "num_hidden_layers")


def _configured(model_path: str, name: str) -> int | None:
    try:
        config = json.loads((Path(model_path) / "config.json").read_text())
        value = config.get("text_config", config).get(name)
    except (OSError, ValueError, AttributeError):
        return None
    return value if isinstance(value, int) else None


def check_predictors(settings: PolicySettings, hidden_size: int | None) -> None:
    """Raise what :func:`make_forecaster` would, as far as it can be told without the engine.

    ``hidden_size`` None: the model does not say, so it is told when the engine has loaded it.
    """
    captured_source(settings)
    for each in filter(None, (settings, shadow_settings(settings))):
        if awaits_checkpoint(each):
            if each.predictor_reload_s == 0.0:
                raise SettingsError(
                    f"nothing is published in {each.predictor_checkpoint}, and with "
                    f"predictor_reload_s 0 nothing that comes later is seen"
                )
            continue
        resolved = with_checkpoint(each)
        if resolved.predictor not in PREDICTORS or hidden_size is None:
            check_predictor(resolved)
        else:
            _make(resolved, hidden_size)


def make_forecaster(
    settings: PolicySettings,
    policy: EvictionPolicy,
    recorder: Recorder,
    hidden_size: int,
    source: str = POST_NORM,
) -> tuple[Forecaster, bool] | None:
    """The forecaster, its threads started, and whether it wants hidden states, which are of
    ``source``; None without a predictor. One that waits for its first checkpoint wants them, since
    that may want them. Raises :class:`pbkv.errors.SettingsError`, also for a checkpoint that does
    not fit.
    """
    # Watched from before it is read, so that no change is missed.
    watch = _watch(settings)
    predictor = _make(settings, hidden_size, source)
    if predictor is None and not awaits_checkpoint(settings):
        return None
    wants_hidden_states = predictor is None or predictor.wants_hidden_states
    shadowed = shadow_settings(settings)
    shadow_watch = None if shadowed is None else _watch(shadowed)
    shadow_predictor = None if shadowed is None else _make(shadowed, hidden_size, source)
    if shadowed is not None:
        wants_hidden_states |= shadow_predictor is None or shadow_predictor.wants_hidden_states
    worker = ForecastWorker(
        predictor,
        noise=settings.forecast_noise,
        on_batch=lambda seconds: recorder.took("predict", seconds),
        on_failure=lambda count: recorder.forecast(ForecastOutcome.FAILED, count),
    )
    worker.start()
    load = _Loader(settings, hidden_size, source, wants_hidden_states)
    _reload(watch, load, worker, recorder, "served")
    shadow = None
    if shadowed is not None:
        shadow_worker = ForecastWorker(shadow_predictor)
        shadow_worker.start()
        load = _Loader(shadowed, hidden_size, source, wants_hidden_states)
        _reload(shadow_watch, load, shadow_worker, recorder, "shadow")
        shadow = ShadowForecasts(shadow_worker, policy.workflows, steps=settings.lookahead_steps)
    forecaster = Forecaster(
        worker, policy.workflows, recorder, steps=settings.lookahead_steps, shadow=shadow
    )
    return forecaster, wants_hidden_states


def _make(
    settings: PolicySettings, hidden_size: int, source: str | None = None
) -> Predictor | None:
    """None for predictor ``none``, and for a first checkpoint that is still to come."""
    if awaits_checkpoint(settings):
        return None
    predictor = make_predictor(with_checkpoint(settings))
    if predictor is not None:
        check_fit(predictor, hidden_size, source)
    return predictor


def _watch(settings: PolicySettings) -> CheckpointWatch | None:
    """The watch over the checkpoint of ``settings``, if there is one to watch."""
    if not settings.predictor_checkpoint or settings.predictor_reload_s == 0.0:
        return None
    return CheckpointWatch(Path(settings.predictor_checkpoint))


@dataclass(frozen=True, slots=True)
class _Loader:
    """Makes a predictor from another checkpoint.

    ``captured`` says whether hidden states are captured: that is settled when the engine starts.
    """

    settings: PolicySettings
    hidden_size: int
    source: str
    captured: bool

    def __call__(self, checkpoint: Path) -> Predictor:
        settings = replace(self.settings, predictor_checkpoint=str(checkpoint))
        predictor = _make(settings, self.hidden_size, self.source)
        if predictor is None:
            raise InvalidCheckpoint(f"checkpoint {checkpoint} is of no predictor")
        if predictor.wants_hidden_states and not self.captured:
            raise InvalidCheckpoint(
                f"checkpoint {checkpoint} needs hidden states, and this engine was started "
                f"without their capture"
            )
        return predictor


def _reload(
    watch: CheckpointWatch | None,
    load: _Loader,
    worker: ForecastWorker,
    recorder: Recorder,
    name: str,
) -> None:
    if watch is not None:
        PredictorReload(
            watch,
            load,
            worker.replace,
            every_s=load.settings.predictor_reload_s,
            on_outcome=lambda applied: recorder.predictor_reload(name, applied=applied),
            name=name,
        ).start()
