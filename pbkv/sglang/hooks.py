"""The places of stock SGLang that the plug-in hooks, each as small as it can be."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from pbkv.hidden_source import layer_of
from pbkv.sglang import BACKEND_NAME
from pbkv.sglang.binding import optional_binding
from pbkv.sglang.factory import read_settings
from pbkv.sglang.layer_output import check_layer, hand_out_layer, layer_rows
from pbkv.sglang.lifecycle import (
    LifecycleBatch,
    announce_requests,
    apply_batch,
    workflows_in_flight,
)
from pbkv.sglang.predictors import captured_source, configured_hidden_size, configured_layers
from pbkv.sglang.requests import verify_sampling_params
from pbkv.sglang.version import stop_start

__all__ = [
    "add_lifecycle",
    "check_server_args",
    "expect_hidden_states",
    "finish_hidden_states",
    "hand_out_hidden_states",
    "join_queue",
    "order_queue",
    "prefetch_around_batch",
    "take_hidden_states",
    "take_lifecycle",
    "verify_sampling_params",
]


def check_server_args(server_args: Any, *args: Any, **kwargs: Any) -> None:
    """BEFORE the server checks its arguments: refuse what the back end cannot do, at once."""
    if server_args.radix_cache_backend != BACKEND_NAME:
        return
    if server_args.disable_radix_cache:
        stop_start("--radix-cache-backend pbkv needs the radix cache; drop --disable-radix-cache")
    if server_args.enable_session_radix_cache:
        stop_start(
            "--enable-session-radix-cache is an eviction order of its own; "
            "drop it or --radix-cache-backend pbkv"
        )
    settings = read_settings(configured_hidden_size(server_args.model_path))
    source = captured_source(settings)
    check_layer(source, configured_layers(server_args.model_path) or sys.maxsize)
    if server_args.speculative_algorithm is not None and layer_of(source) is not None:
        stop_start(
            f"--speculative-algorithm and hidden states of {source} exclude each other: "
            f"use those of post-norm"
        )
    if settings.queue and server_args.schedule_policy != "fcfs":
        stop_start(
            f"--schedule-policy {server_args.schedule_policy} and the queue order "
            f"{settings.queue} exclude each other; drop one of them"
        )


def add_lifecycle(pulled: Any, receiver: Any, *args: Any, **kwargs: Any) -> Any:
    """AFTER rank 0 pulled requests: put the lifecycle batch in front of them, to be broadcast."""
    binding = optional_binding()
    if pulled is None or binding is None or binding.source is None:
        return None
    batch = binding.source.poll()
    if batch is None:
        return None
    link = None if binding.prefetch is None else binding.prefetch.link
    if batch.tick and link is not None:
        batch = replace(batch, bandwidth_tokens=link.budget_tokens())
    return [batch, *pulled]


def take_lifecycle(scheduler: Any, recv_reqs: list[Any], *args: Any, **kwargs: Any) -> Any:
    """BEFORE a rank processes the requests of a step: take out and apply the lifecycle batches."""
    binding = getattr(scheduler.tree_cache, "binding", None)
    if binding is None:
        return None
    if binding.waiting is not None:
        binding.waiting.keep(scheduler.waiting_queue)
    if not recv_reqs:
        return None
    requests = []
    for received in recv_reqs:
        if isinstance(received, LifecycleBatch):
            apply_batch(binding, received, lambda: workflows_in_flight(scheduler))
            if received.tick:
                if binding.prefetch is not None:
                    binding.prefetch.bandwidth_tokens = received.bandwidth_tokens
                if binding.forecaster is not None:
                    binding.forecaster.publish()
                binding.recorder.sampled(binding.policy, scheduler.token_to_kv_pool_allocator.size)
        else:
            announce_requests(binding, scheduler._tokenized_requests(received))
            requests.append(received)
    return (scheduler, requests, *args), kwargs


def prefetch_around_batch(scheduler: Any, batch: Any, *args: Any, **kwargs: Any) -> None:
    """BEFORE a batch is launched: finish loads it could read, start loads behind a decode step."""
    binding = optional_binding()
    if binding is not None and binding.prefetch is not None:
        # Imported here: this module is loaded by every SGLang process.
        from pbkv.sglang.reserve import needed_tokens

        decode = batch.forward_mode.is_decode()
        needed = needed_tokens(scheduler, batch, binding.waiting) if decode else 0
        binding.prefetch.before_batch(scheduler.tree_cache, decode=decode, needed_tokens=needed)


def hand_out_hidden_states(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
    """AFTER a model was loaded: have it hand out the layer that is wanted, on every rank."""
    if runner.server_args.radix_cache_backend == BACKEND_NAME and not runner.is_draft_worker:
        source = captured_source(read_settings())
        check_layer(source, runner.model_config.num_hidden_layers)
        hand_out_layer(runner.model, source)


def expect_hidden_states(scheduler: Any, batch: Any, *args: Any, **kwargs: Any) -> None:
    """BEFORE a batch is launched: note which of its rows end a prompt."""
    binding = optional_binding()
    if binding is not None and binding.capture is not None:
        binding.capture.expect(batch)


def take_hidden_states(
    processor: Any,
    input_ids: Any,
    hidden_states: Any,
    lm_head: Any,
    logits_metadata: Any,
    aux_hidden_states: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """BEFORE the logits processor of a model: take the noted rows.

    A layer that the model handed out for us goes no further: SGLang would take it for EAGLE's.
    """
    binding = optional_binding()
    if binding is None:
        return None
    ours = binding.captures_layer and aux_hidden_states is not None
    if binding.capture is not None:
        rows = layer_rows(aux_hidden_states) if ours else hidden_states
        binding.capture.take(rows, logits_metadata)
    if not ours:
        return None
    return (processor, input_ids, hidden_states, lm_head, logits_metadata, None, *args), kwargs


def finish_hidden_states(result: Any, *args: Any, **kwargs: Any) -> None:
    """AFTER a batch was launched: whoever got no hidden state is told."""
    binding = optional_binding()
    if binding is not None and binding.capture is not None:
        binding.capture.finish()


def join_queue(result: Any, scheduler: Any, req: Any, *args: Any, **kwargs: Any) -> None:
    """AFTER a request was to be put into the queue: it waits from now on, unless it was refused."""
    binding = optional_binding()
    queue = scheduler.waiting_queue
    if binding is not None and binding.waiting is not None and queue and queue[-1] is req:
        binding.waiting.joined(req)


def order_queue(
    original: Any, schedule_policy: Any, waiting_queue: list[Any], *args: Any, **kwargs: Any
) -> None:
    """AROUND the ordering of the queue: the plug-in's order, if it is selected."""
    binding = optional_binding()
    if binding is None or binding.waiting is None or not binding.waiting.ordered:
        original(schedule_policy, waiting_queue, *args, **kwargs)
        return
    with_priority = schedule_policy.enable_priority_scheduling
    binding.waiting.sort(waiting_queue, schedule_policy.priority_sign if with_priority else None)
    # What stock does after it ordered the queue by arrival.
    schedule_policy._touch_waiting_prefixes(schedule_policy.policy, waiting_queue)
