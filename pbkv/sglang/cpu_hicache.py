"""What HiCache lacks on a CPU: host memory without pinning, a copy, and streams that do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

RESERVED_HOST_BYTES = 256 * 1024**2
"""Memory that the host tier leaves free. Stock leaves 10 GiB, which suits a GPU server and keeps a
laptop from starting at all."""


def install_cpu_hicache() -> None:
    """Give HiCache its CPU parts. No effect where CUDA is available."""
    if torch.cuda.is_available():
        return
    from sglang.srt.mem_cache.pool_host import base, common, mha

    _complete_cpu_streams()
    base.HICACHE_HOST_MEMORY_RESERVE_BYTES = RESERVED_HOST_BYTES
    common.ALLOC_MEMORY_FUNCS["cpu"] = _allocate_unpinned
    mha.transfer_kv_direct = _copy_tokens


def _allocate_unpinned(
    dims: tuple[int, ...],
    dtype: torch.dtype,
    device: str,
    pin_memory: bool,
    allocator: Any,
    registration_granularity_bytes: int | None = None,
) -> torch.Tensor:
    # Zeroed, so that the pages are committed at the start and not in the middle of a request.
    return torch.zeros(dims, dtype=dtype, device=device)


def _copy_tokens(
    src_layers: Sequence[torch.Tensor],
    dst_layers: Sequence[torch.Tensor],
    src_indices: torch.Tensor,
    dst_indices: torch.Tensor,
    page_size: int,
) -> None:
    """Copy token rows between pools, one tensor per layer and side of the cache.

    Both index tensors name tokens and have the same length; the page size does not matter when
    rows are copied one by one. Synchronous, like everything on this platform.
    """
    for src, dst in zip(src_layers, dst_layers, strict=True):
        dst[dst_indices] = src[src_indices]


class _DoneEvent:
    """An event on a device without streams: always reached."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing

    def record(self, stream: Any = None) -> None:
        return None

    def wait(self, stream: Any = None) -> None:
        return None

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None

    def elapsed_time(self, other: Any) -> float:
        return 0.0


def _nothing(self: Any, *args: Any, **kwargs: Any) -> None:
    """There is one queue of work on a CPU, and it is always in order."""


def _complete_cpu_streams() -> None:
    if not hasattr(torch.cpu, "Event"):
        torch.cpu.Event = _DoneEvent
    for method in ("wait_event", "wait_stream", "synchronize", "record_event"):
        if not hasattr(torch.cpu.Stream, method):
            setattr(torch.cpu.Stream, method, _nothing)
