"""Entry point ``sglang.srt.plugins``: what SGLang runs in each of its processes at the start."""

from __future__ import annotations

import os
import sys
from typing import Any

from pbkv.settings import ENV_PREFIX
from pbkv.sglang import BACKEND_NAME, TREE_CORE_NAME
from pbkv.sglang.version import stop_start, version_problem


def register() -> None:
    """Register the ``pbkv`` cache back end and the hooks it lives on.

    A start that does not select the back end is left as stock, but for what HiCache and LoRA lack
    on a CPU.
    """
    problem = version_problem()
    if problem is not None:
        if _is_asked_for():
            stop_start(problem)
        return

    from sglang.srt.mem_cache.registry import register_radix_cache_backend
    from sglang.srt.mem_cache.unified_cache.tree_core_registry import register_tree_core_backend
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from pbkv.sglang import hooks, inspection
    from pbkv.sglang.cpu_hicache import install_cpu_hicache
    from pbkv.sglang.cpu_lora import use_unpinned_memory
    from pbkv.sglang.factory import create_policy_cache, create_tree_core
    from pbkv.sglang.longest_request import limit_requests

    install_cpu_hicache()
    register_radix_cache_backend(BACKEND_NAME, create_policy_cache)
    register_tree_core_backend(TREE_CORE_NAME, create_tree_core)
    for target, hook, kind in (
        ("server_args.ServerArgs.check_server_args", hooks.check_server_args, HookType.BEFORE),
        (
            "sampling.sampling_params.SamplingParams.verify",
            hooks.verify_sampling_params,
            HookType.BEFORE,
        ),
        (
            "managers.scheduler_components.request_receiver"
            ".SchedulerRequestReceiver._pull_raw_reqs",
            hooks.add_lifecycle,
            HookType.AFTER,
        ),
        (
            "managers.scheduler.Scheduler.process_input_requests",
            hooks.take_lifecycle,
            HookType.BEFORE,
        ),
        (
            "model_executor.model_runner.ModelRunner.load_model",
            hooks.hand_out_hidden_states,
            HookType.AFTER,
        ),
        ("managers.scheduler.Scheduler.run_batch", hooks.prefetch_around_batch, HookType.BEFORE),
        ("managers.scheduler.Scheduler.run_batch", hooks.expect_hidden_states, HookType.BEFORE),
        ("managers.scheduler.Scheduler.run_batch", hooks.finish_hidden_states, HookType.AFTER),
        (
            "layers.logits_processor.LogitsProcessor.forward",
            hooks.take_hidden_states,
            HookType.BEFORE,
        ),
        (
            "managers.scheduler.Scheduler._add_request_to_queue",
            hooks.join_queue,
            HookType.AFTER,
        ),
        (
            "managers.schedule_policy.SchedulePolicy.calc_priority",
            hooks.order_queue,
            HookType.AROUND,
        ),
        (
            "managers.scheduler.Scheduler.get_internal_state",
            inspection.answer_nodes,
            HookType.AROUND,
        ),
        (
            "managers.tokenizer_manager.TokenizerManager.__init__",
            inspection.add_nodes_route,
            HookType.AFTER,
        ),
        ("managers.scheduler.Scheduler.__init__", limit_requests, HookType.AFTER),
        ("lora.lora_manager.LoRAManager.__init__", use_unpinned_memory, HookType.BEFORE),
    ):
        HookRegistry.register(f"sglang.srt.{target}", hook, kind)


def _is_asked_for() -> bool:
    """Whether this start selects the back end, as far as the command line and environment say.

    Without a known SGLang there is no reliable place to read its parsed arguments.
    """
    arguments: list[Any] = sys.argv
    return any(argument.endswith(BACKEND_NAME) for argument in arguments) or any(
        name.startswith(ENV_PREFIX) for name in os.environ
    )
