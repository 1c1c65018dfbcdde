"""Options of one engine, and the command line and environment they amount to."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from pbkv.settings import ENV_PREFIX, PolicySettings
from services.engine.errors import InvalidEngineOptions

MAX_PORT = 65_535
_CORES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*(\|\d+(-\d+)?(,\d+(-\d+)?)*)*")

_Choice = TypeVar("_Choice", bound=StrEnum)


class Device(StrEnum):
    """What the engine computes on. ``AUTO`` is CUDA where the driver is present."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class CacheBackend(StrEnum):
    """Who decides what leaves the KV cache."""

    PBKV = "pbkv"
    """The plug-in, under the policy of :attr:`EngineOptions.policy`."""
    STOCK = "stock"
    """SGLang as shipped: LRU."""
    SESSION = "session"
    """SGLang as shipped, with ``--enable-session-radix-cache``."""


def longest_context(kv_tokens: int, page_size: int) -> int:
    """The longest prompt and answer, in tokens, that a pool of ``kv_tokens`` can admit.

    SGLang accepts up to the whole pool, but admits a request only where its tokens and pages cut
    short fit in: what lies between would wait at the head of the queue for ever.
    """
    return kv_tokens // page_size * page_size - 2 * page_size


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """One SGLang server.

    ``kv_tokens`` and ``context_length`` None leave the choice to the engine (memory, model).
    ``host_ratio`` is the size of the host tier over that of the device tier, 0 for no host tier.
    ``cpu_cores`` binds the ranks to cores in SGLang's notation, ranks parted by ``|``: ``0-3|4-7``.
    ``log_path`` None passes the engine's output through to that of this process.
    """

    model_path: Path
    served_model_name: str
    port: int
    host: str = "127.0.0.1"
    device: Device = Device.AUTO
    tp: int = 1
    kv_tokens: int | None = None
    context_length: int | None = None
    page_size: int = 16
    host_ratio: float = 0.0
    cache: CacheBackend = CacheBackend.PBKV
    policy: PolicySettings = field(default_factory=PolicySettings)
    schedule_policy: str | None = None
    max_running_requests: int | None = None
    chunked_prefill_size: int | None = None
    cpu_cores: str | None = None
    load_format: str | None = None
    log_path: Path | None = None
    extra_args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # The classes accept plain strings, so that options can come from JSON.
        object.__setattr__(self, "device", _member(Device, self.device, "device"))
        object.__setattr__(self, "cache", _member(CacheBackend, self.cache, "cache"))
        if not 0 < self.port <= MAX_PORT:
            raise InvalidEngineOptions(f"port is {self.port}; it must be 1 to {MAX_PORT}")
        for name in (
            "tp",
            "kv_tokens",
            "context_length",
            "page_size",
            "max_running_requests",
            "chunked_prefill_size",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidEngineOptions(f"{name} is {value}; it must be at least 1")
        if self.kv_tokens is not None and self.kv_tokens < self.page_size:
            raise InvalidEngineOptions(
                f"kv_tokens is {self.kv_tokens}, less than one page of {self.page_size}"
            )
        if self.host_ratio < 0:
            raise InvalidEngineOptions(f"host_ratio is {self.host_ratio}; it must not be negative")
        if self.cpu_cores is not None and not _CORES.fullmatch(self.cpu_cores):
            raise InvalidEngineOptions(
                f"cpu_cores is {self.cpu_cores[:40]!r}; expected cores such as 0 or 0-3|4-7"
            )
        if self.cpu_cores is not None and self.cpu_cores.count("|") != self.tp - 1:
            raise InvalidEngineOptions(
                f"cpu_cores {self.cpu_cores!r} must name cores for each of {self.tp} ranks"
            )

    @property
    def url(self) -> str:
        """Where the engine answers, as seen from this machine."""
        host = "127.0.0.1" if self.host == "0.0.0.0" else self.host
        return f"http://{host}:{self.port}"

    @property
    def on_cpu(self) -> bool:
        return resolve_device(self.device) is Device.CPU


def resolve_device(device: Device, driver: Path = Path("/dev/nvidiactl")) -> Device:
    """CPU or CUDA, by the driver's device file: asking torch would take seconds."""
    if device is not Device.AUTO:
        return device
    return Device.CUDA if driver.exists() else Device.CPU


def command(options: EngineOptions) -> list[str]:
    """The command line of the engine."""
    words: list[str] = [sys.executable, "-m", "sglang.launch_server"]
    words += ["--model-path", str(options.model_path)]
    words += ["--served-model-name", options.served_model_name]
    words += ["--host", options.host, "--port", str(options.port)]
    words += ["--page-size", str(options.page_size)]
    # Access lines of a health check every second would bury everything else in the log.
    words += ["--log-level-http", "warning"]
    words += ["--sleep-on-idle", "--enable-metrics", "--enable-cache-report"]
    words += _cache_words(options)
    if options.on_cpu:
        words += ["--device", "cpu", "--attention-backend", "torch_native"]
    for flag, value in (
        ("--max-total-tokens", options.kv_tokens),
        ("--context-length", options.context_length),
        ("--schedule-policy", options.schedule_policy),
        ("--max-running-requests", options.max_running_requests),
        ("--chunked-prefill-size", options.chunked_prefill_size),
        ("--load-format", options.load_format),
        ("--tp-size", options.tp if options.tp > 1 else None),
    ):
        if value is not None:
            words += [flag, str(value)]
    return [*words, *options.extra_args]


def environment(options: EngineOptions, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of the engine: ``base`` and what the options add to it.

    Settings of another engine in ``base`` are left out: each engine has exactly its own.
    """
    names = (name for name in base if not name.startswith(ENV_PREFIX))
    environ = {name: base[name] for name in names if name != "PROMETHEUS_MULTIPROC_DIR"}
    # The model is a folder: the engine has nothing to fetch, and must not wait for a network.
    environ["HF_HUB_OFFLINE"] = "1"
    # By default every GET /health runs a one-token prefill through the scheduler, which at one
    # probe a second disturbs the batches. A hung scheduler is ended by the engine's own watchdog.
    environ["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] = "0"
    if options.on_cpu:
        environ["OMP_NUM_THREADS"] = "1"
        # With a GPU in sight the CPU platform stands back, whatever --device says.
        environ["CUDA_VISIBLE_DEVICES"] = ""
    if options.cpu_cores is not None:
        environ["SGLANG_CPU_OMP_THREADS_BIND"] = options.cpu_cores
    if options.cache is CacheBackend.PBKV:
        environ |= options.policy.to_env()
    return environ


def _cache_words(options: EngineOptions) -> list[str]:
    words: list[str] = []
    if options.cache is CacheBackend.PBKV:
        words += ["--radix-cache-backend", "pbkv"]
    elif options.cache is CacheBackend.SESSION:
        words += ["--enable-session-radix-cache"]
    if options.host_ratio > 0:
        words += ["--enable-hierarchical-cache", "--hicache-ratio", f"{options.host_ratio:g}"]
        words += ["--hicache-write-policy", "write_through"]
        if options.on_cpu:
            words += ["--hicache-io-backend", "direct", "--hicache-mem-layout", "layer_first"]
    return words


def _member(kind: type[_Choice], value: str, name: str) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(member.value for member in kind)
        raise InvalidEngineOptions(f"{name} is {value!r}; choose one of: {choices}") from None
