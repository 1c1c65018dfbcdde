"""SGLang's real radix cache in this process, without a model or a server.

The cache is built the way the scheduler builds it, over pools of the smallest shape there is: what
is stored per token does not matter to a tree, only which slots it takes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from unittest.mock import patch

from pbkv.predict import NO_PREDICTOR
from pbkv.settings import ENV_PREFIX, PolicySettings

_HOST_MEMORY_BYTES = 1 << 30


class TreeCore(StrEnum):
    """Which code walks the tree: the plug-in's or one of stock SGLang's two."""

    PBKV = "pbkv"
    STOCK_PYTHON = "stock-python"
    STOCK_RUST = "stock-rust"


@dataclass(frozen=True, slots=True)
class LocalCacheOptions:
    """``host_ratio`` is host tokens per device token; 0 for no host tier.
    ``settings`` are those of the plug-in's policy, ignored by stock cores."""

    core: TreeCore
    kv_tokens: int
    page_size: int = 16
    host_ratio: float = 0.0
    max_requests: int = 8
    context_length: int = 512
    settings: PolicySettings | None = None


@dataclass(frozen=True, slots=True)
class LocalCache:
    """A cache and the pools beneath it."""

    cache: Any
    allocator: Any
    request_pool: Any

    def close(self) -> None:
        """Give the host tier's memory back."""
        import atexit

        # SGLang keeps every cache with a host tier alive to the end of the process.
        atexit.unregister(self.cache.shutdown)
        self.cache.release_host_resources()


def rust_core_problem() -> str | None:
    """Why the stock Rust core cannot run here, or None if it can."""
    _prepare_process()
    try:
        from sglang.srt.mem_cache.rust_tree_core.adapter import RustUnifiedTreeCore
    except (ImportError, OSError, RuntimeError) as problem:
        return f"{type(problem).__name__}: {problem}".splitlines()[0]
    del RustUnifiedTreeCore
    return None


def build_local_cache(options: LocalCacheOptions) -> LocalCache:
    """Build the cache. The plug-in's is bound as the policy of this process."""
    _prepare_process()
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
    from sglang.srt.mem_cache.pool_host.base import host_memory_budget_scope
    from sglang.srt.mem_cache.registry import TreeCacheBuildContext, create_unified_radix_cache

    server_args = _publish_server_args(options)
    allocator = _allocator(options)
    request_pool = ReqToTokenPool(
        size=options.max_requests,
        max_context_len=options.context_length,
        device="cpu",
        enable_memory_saver=False,
    )
    params = CacheInitParams(
        disable=False,
        req_to_token_pool=request_pool,
        token_to_kv_pool_allocator=allocator,
        page_size=options.page_size,
        tree_core_backend=None if options.core is TreeCore.PBKV else _STOCK_CORES[options.core],
    )
    context = TreeCacheBuildContext(
        server_args=server_args,
        params=params,
        is_hybrid_swa=False,
        is_hybrid_ssm=False,
        enable_hierarchical_cache=options.host_ratio > 0,
        disable_radix_cache=False,
        tp_worker=_NoWorker(),
        model_config=_NoModel(),
        tp_size=1,
        tp_rank=0,
        tp_group=None,
    )
    with host_memory_budget_scope(_HOST_MEMORY_BYTES):
        if options.core is TreeCore.PBKV:
            from pbkv.sglang.factory import create_policy_cache

            with _policy_environment(options.settings or PolicySettings()):
                cache = create_policy_cache(context)
        else:
            cache = create_unified_radix_cache(context)
    return LocalCache(cache, allocator, request_pool)


_STOCK_CORES: Mapping[TreeCore, str] = {
    TreeCore.STOCK_PYTHON: "python",
    TreeCore.STOCK_RUST: "rust",
}


class _NoModel:
    """Stands for the model's configuration, which says how long a hidden state is."""

    hidden_size = 0


class _NoWorker:
    """Stands for the model's side, which waits for loads of the host tier layer by layer."""

    def register_hicache_layer_transfer_counter(self, counter: Any) -> None:
        """Nobody computes here, so nobody waits."""


def _prepare_process() -> None:
    """What an SGLang process does at its start, as far as a cache needs it: the platform, which
    makes the import of the rest possible without a GPU, and the plug-in. No hook is applied."""
    from pbkv.sglang import BACKEND_NAME
    from pbkv.sglang.platform import activate

    activate()
    from sglang.srt.mem_cache.registry import get_radix_cache_factory

    if get_radix_cache_factory(BACKEND_NAME) is None:
        from pbkv.sglang.plugin import register

        register()


def _publish_server_args(options: LocalCacheOptions) -> Any:
    from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

    server_args = ServerArgs(
        model_path="dummy",
        device="cpu",
        page_size=options.page_size,
        enable_hierarchical_cache=options.host_ratio > 0,
        hicache_ratio=options.host_ratio or 1.0,
        hicache_io_backend="direct",
        hicache_mem_layout="layer_first",
        hicache_write_policy="write_through",
    )
    set_global_server_args_for_scheduler(server_args)
    return server_args


def _allocator(options: LocalCacheOptions) -> Any:
    import torch
    from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
    from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

    pool = MHATokenToKVPool(
        size=options.kv_tokens,
        page_size=options.page_size,
        dtype=torch.bfloat16,
        head_num=1,
        head_dim=1,
        layer_num=1,
        device="cpu",
        enable_memory_saver=False,
    )
    common = {
        "size": options.kv_tokens,
        "dtype": torch.bfloat16,
        "device": "cpu",
        "kvcache": pool,
        "need_sort": False,
    }
    if options.page_size == 1:
        return TokenToKVPoolAllocator(**common)
    return PagedTokenToKVPoolAllocator(page_size=options.page_size, **common)


@contextmanager
def _policy_environment(settings: PolicySettings) -> Iterator[None]:
    """The plug-in reads its settings from the environment, as in an engine process.

    Without a predictor: forecasts are given here, and its thread would outlive the cache.
    """
    settings = replace(settings, predictor=NO_PREDICTOR)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    with patch.dict(os.environ, kept | settings.to_env(), clear=True):
        yield
