"""What LoRA lacks on a CPU: its offset tables ask for pinned memory, which only a GPU has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def use_unpinned_memory(*args: Any, **kwargs: Any) -> None:
    """BEFORE hook of ``LoRAManager.__init__``. No effect where CUDA is available."""
    if torch.cuda.is_available():
        return
    from sglang.srt.lora import layers
    from sglang.srt.lora.backend import torch_backend

    layers.torch = torch_backend.torch = _UnpinnedTorch()
    # Without an accelerator every call of this method raises, so nobody relies on it.
    torch.Tensor.pin_memory = lambda self, *args, **kwargs: self


class _UnpinnedTorch:
    """The torch module, as seen by a module of the engine, with factories that never pin."""

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(torch, name)
        return _unpinned(attribute) if name in _FACTORIES else attribute


_FACTORIES = frozenset({"empty", "ones", "tensor", "zeros"})


def _unpinned(factory: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def make(*args: Any, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
        return factory(*args, **kwargs)

    return make
