"""The platform class that lets stock SGLang run in plain torch on a CPU."""

from __future__ import annotations

from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform


class TorchCpuPlatform(CpuDeviceMixin, SRTPlatform):
    """No kernels at all, so the engine takes its torch-native paths.

    The in-tree CPU platform wants a build of sgl_kernel or vllm for CPU; as an out-of-tree
    platform with no capabilities none of that is asked for.
    """

    _enum = PlatformEnum.OOT
    capabilities = PlatformCapabilities()

    def get_default_attention_backend(self) -> str:
        return "torch_native"

    def is_pin_memory_available(self, device: object = None) -> bool:
        return False
