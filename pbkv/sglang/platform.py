"""Entry point ``sglang.srt.platforms``: run stock SGLang on a machine without a GPU."""

from __future__ import annotations

import importlib.util

from pbkv.sglang.torchvision_stub import install_torchvision_stub


def activate() -> str | None:
    """The platform class for this machine, or None where CUDA leaves nothing to do.

    SGLang calls this while it is being imported, before anything of it that needs torchvision,
    which has no CPU wheel and which no text model uses.
    """
    import torch

    if torch.cuda.is_available():
        return None
    if importlib.util.find_spec("torchvision") is None:
        install_torchvision_stub()
    return "pbkv.sglang.cpu_platform.TorchCpuPlatform"
