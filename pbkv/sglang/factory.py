"""Builds the policy and the cache of one scheduler process."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbkv.errors import InvalidTrace, SettingsError
from pbkv.hidden_source import layer_of
from pbkv.policy import make_policy
from pbkv.policy.pbkv import PbkvPolicy
from pbkv.settings import PolicySettings
from pbkv.sglang import TREE_CORE_NAME
from pbkv.sglang.binding import PolicyBinding, bind
from pbkv.sglang.forecasting import Forecaster
from pbkv.sglang.hidden_trace import HiddenTrace
from pbkv.sglang.lifecycle import LifecycleSource
from pbkv.sglang.predictors import captured_source, check_predictors, make_forecaster
from pbkv.sglang.prefetch import EnginePrefetch
from pbkv.sglang.record import EvictionLog, PrometheusRecorder, Recorder
from pbkv.sglang.stream import EventStream
from pbkv.sglang.version import stop_start
from pbkv.trace.hidden import ShardFolder
from pbkv.trace.parquet import pyarrow

if TYPE_CHECKING:
    from sglang.srt.mem_cache.registry import TreeCacheBuildContext

    from pbkv.sglang.hidden_states import HiddenStateSink


def read_settings(hidden_size: int | None = None) -> PolicySettings:
    """Settings of this process, checked; ends the start with one line if they are wrong.

    With ``hidden_size``, that of the model, also if a predictor's checkpoint does not fit it.
    """
    try:
        settings = PolicySettings.from_env(os.environ)
        make_policy(settings)
        check_predictors(settings, hidden_size)
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
    source = captured_source(settings)
    binding = PolicyBinding(
        policy=make_policy(settings),
        recorder=recorder,
        captures_layer=layer_of(source) is not None,
    )
    if leader:
        _add_forecaster(binding, settings, ctx.model_config.hidden_size, source)
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


def _add_forecaster(
    binding: PolicyBinding, settings: PolicySettings, hidden_size: int, source: str
) -> None:
    """A predictor in its thread, if the policy uses forecasts; and who else wants hidden states."""
    policy, recorder = binding.policy, binding.recorder
    sinks: list[HiddenStateSink] = []
    try:
        made = (
            make_forecaster(settings, policy, recorder, hidden_size, source)
            if policy.uses_forecasts
            else None
        )
        if made is not None:
            forecaster, wants_hidden_states = made
            policy.workflows.listener = binding.forecaster = forecaster
            sinks += [forecaster] if wants_hidden_states else []
        if settings.trace_hidden_dir:
            sinks.append(_hidden_trace(settings, recorder, source))
    except (SettingsError, InvalidTrace) as problem:
        stop_start(str(problem))
    if sinks:
        # Imported here: it needs torch, and most predictors do not need it.
        from pbkv.sglang.hidden_states import HiddenStateCapture

        binding.hidden_state_sinks = tuple(sinks)
        binding.capture = HiddenStateCapture.for_sinks(sinks)


def _hidden_trace(settings: PolicySettings, recorder: Recorder, source: str) -> HiddenTrace:
    """The writer of hidden states, its thread started. Raises SettingsError, InvalidTrace."""
    pyarrow()
    try:
        folder = ShardFolder(
            Path(settings.trace_hidden_dir),
            settings.replica_id,
            started_ms=int(time.time() * 1000),
            max_bytes=settings.trace_hidden_max_mb * 1024 * 1024,
            source=source,
        )
    except OSError as problem:
        raise SettingsError(
            f"trace_hidden_dir {settings.trace_hidden_dir}: {problem.strerror}"
        ) from None
    trace = HiddenTrace(
        folder,
        flush_s=settings.trace_hidden_flush_s,
        on_outcome=lambda outcome, count: recorder.hidden_states_traced(outcome.value, count),
    )
    trace.start()
    return trace


def _source(
    settings: PolicySettings, recorder: Recorder, forecaster: Forecaster | None
) -> LifecycleSource:
    if not settings.redis_url:
        return LifecycleSource(None, forecaster)
    stream = EventStream(settings.redis_url, settings.replica_id, recorder.rejected_event)
    stream.start()
    return LifecycleSource(stream, forecaster)
