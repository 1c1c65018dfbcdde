"""Builds the policy and the cache of one scheduler process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbkv.errors import SettingsError
from pbkv.policy import make_policy
from pbkv.policy.pbkv import PbkvPolicy
from pbkv.predict import check_predictor, make_predictor
from pbkv.predict.worker import ForecastWorker
from pbkv.settings import PolicySettings
from pbkv.sglang import TREE_CORE_NAME
from pbkv.sglang.binding import PolicyBinding, bind
from pbkv.sglang.forecasting import Forecaster
from pbkv.sglang.lifecycle import LifecycleSource
from pbkv.sglang.prefetch import EnginePrefetch
from pbkv.sglang.record import EvictionLog, ForecastOutcome, PrometheusRecorder, Recorder
from pbkv.sglang.stream import EventStream
from pbkv.sglang.version import stop_start

if TYPE_CHECKING:
    from sglang.srt.mem_cache.registry import TreeCacheBuildContext


def read_settings() -> PolicySettings:
    """Settings of this process, checked; ends the start with one line if they are wrong."""
    try:
        settings = PolicySettings.from_env(os.environ)
        make_policy(settings)
        check_predictor(settings)
    except SettingsError as problem:
        stop_start(str(problem))
    return settings


def create_policy_cache(ctx: TreeCacheBuildContext) -> Any:
    """Factory for SGLang's radix-cache registry: ``--radix-cache-backend pbkv``."""
    # Imported here: this module is loaded by every SGLang process, the cache by schedulers only.
    from sglang.srt.mem_cache.registry import create_unified_radix_cache
    from sglang.srt.mem_cache.unified_cache.component_type import ComponentType

    from pbkv.sglang.cache import PolicyRadixCache
    from pbkv.sglang.component import PolicyFullComponent

    settings = read_settings()
    leader = ctx.tp_rank == 0 and ctx.params.pp_rank == 0
    recorder = _recorder(settings, ctx, leader)
    binding = PolicyBinding(policy=make_policy(settings), recorder=recorder)
    if leader:
        _add_forecaster(binding, settings)
        binding.source = _source(settings, recorder, binding.forecaster)
    if isinstance(binding.policy, PbkvPolicy) and ctx.enable_hierarchical_cache:
        binding.prefetch = EnginePrefetch(binding.policy, recorder, measures=leader)
    bind(binding)
    ctx.params.component_registry_override = {
        **(ctx.params.component_registry_override or {}),
        ComponentType.FULL: PolicyFullComponent,
    }
    ctx.params = replace(ctx.params, tree_core_backend=TREE_CORE_NAME)
    return create_unified_radix_cache(ctx, cache_class=PolicyRadixCache)


def create_tree_core(params: Any, components: Any) -> Any:
    """Factory for SGLang's tree-core registry."""
    from pbkv.sglang.tree import PolicyTreeCore

    return PolicyTreeCore(params, components)


def _recorder(settings: PolicySettings, ctx: TreeCacheBuildContext, leader: bool) -> Any:
    recorder = Recorder()
    if leader and ctx.params.enable_metrics:
        # Ranks evict alike: counting on one of them counts each token once.
        recorder = PrometheusRecorder(settings.replica_id)
    if not settings.eviction_log_dir:
        return recorder
    name = f"evictions-rank{ctx.tp_rank}.jsonl"
    return EvictionLog(Path(settings.eviction_log_dir) / name, recorder)


def _add_forecaster(binding: PolicyBinding, settings: PolicySettings) -> None:
    """A predictor in its thread, if the policy has a use for it."""
    policy, recorder = binding.policy, binding.recorder
    try:
        predictor = make_predictor(settings) if policy.uses_forecasts else None
    except SettingsError as problem:
        stop_start(str(problem))
    if predictor is None:
        return
    worker = ForecastWorker(
        predictor,
        noise=settings.forecast_noise,
        on_batch=lambda seconds: recorder.took("predict", seconds),
        on_failure=lambda count: recorder.forecast(ForecastOutcome.FAILED, count),
    )
    worker.start()
    forecaster = Forecaster(worker, policy.workflows, recorder, steps=settings.lookahead_steps)
    policy.workflows.listener = binding.forecaster = forecaster
    if predictor.wants_hidden_states:
        # Imported here: it needs torch, and most predictors do not need it.
        from pbkv.sglang.hidden_states import HiddenStateCapture

        binding.capture = HiddenStateCapture(forecaster.awaits, forecaster.take_hidden_state)


def _source(
    settings: PolicySettings, recorder: Recorder, forecaster: Forecaster | None
) -> LifecycleSource:
    if not settings.redis_url:
        return LifecycleSource(None, forecaster)
    stream = EventStream(settings.redis_url, settings.replica_id, recorder.rejected_event)
    stream.start()
    return LifecycleSource(stream, forecaster)
