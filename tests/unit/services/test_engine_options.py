"""Options become the command line and environment that stock SGLang understands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pbkv.settings import PolicySettings
from services.engine import (
    CacheBackend,
    Device,
    EngineOptions,
    InvalidEngineOptions,
    command,
    environment,
)
from services.engine.options import resolve_device

CPU = EngineOptions(
    model_path=Path("/models/tiny"), served_model_name="tiny", port=33500, device=Device.CPU
)


def options_of(argv: list[str]) -> dict[str, str]:
    """Flags with the word after them, which of a flag without a value is the next flag."""
    return dict(zip(argv, [*argv[1:], ""], strict=True))


def test_cpu_engine_with_policy_and_host_tier() -> None:
    argv = command(replace(CPU, kv_tokens=4096, context_length=2048, host_ratio=2.5, tp=2))
    flags = options_of(argv)
    assert argv[1:3] == ["-m", "sglang.launch_server"]
    assert flags["--model-path"] == "/models/tiny"
    assert flags["--served-model-name"] == "tiny"
    assert flags["--port"] == "33500"
    assert flags["--device"] == "cpu"
    assert flags["--attention-backend"] == "torch_native"
    assert flags["--radix-cache-backend"] == "pbkv"
    assert flags["--max-total-tokens"] == "4096"
    assert flags["--context-length"] == "2048"
    assert flags["--hicache-ratio"] == "2.5"
    assert flags["--hicache-io-backend"] == "direct"
    assert flags["--tp-size"] == "2"


def test_gpu_engine_leaves_the_kernels_to_sglang() -> None:
    argv = command(replace(CPU, device=Device.CUDA, host_ratio=1))
    assert not {"--device", "--attention-backend", "--hicache-io-backend"} & set(argv)
    assert "--enable-hierarchical-cache" in argv


@pytest.mark.parametrize(
    ("cache", "present", "absent"),
    [
        (CacheBackend.PBKV, "--radix-cache-backend", "--enable-session-radix-cache"),
        (CacheBackend.SESSION, "--enable-session-radix-cache", "--radix-cache-backend"),
        (CacheBackend.STOCK, "--enable-metrics", "--radix-cache-backend"),
    ],
)
def test_cache_backends(cache: CacheBackend, present: str, absent: str) -> None:
    argv = command(replace(CPU, cache=cache))
    assert present in argv
    assert absent not in argv


def test_options_that_are_not_given_leave_no_flag() -> None:
    argv = command(CPU)
    assert not {"--max-total-tokens", "--schedule-policy", "--load-format", "--tp-size"} & set(argv)
    assert "--enable-hierarchical-cache" not in argv


def test_extra_arguments_come_last() -> None:
    argv = command(replace(CPU, extra_args=("--watchdog-timeout", "60")))
    assert argv[-2:] == ["--watchdog-timeout", "60"]


def test_environment_holds_the_settings_of_this_engine_only() -> None:
    base = {
        "PATH": "/bin",
        "PBKV_ENGINE_POLICY": "lru",
        "PBKV_ENGINE_REPLICA_ID": "another",
        "PROMETHEUS_MULTIPROC_DIR": "/tmp/another",
    }
    policy = PolicySettings(policy="lae", idle_timeout_s=7, redis_url="redis://r", replica_id="r1")
    environ = environment(replace(CPU, policy=policy, cpu_cores="1"), base)
    assert environ["PATH"] == "/bin"
    assert PolicySettings.from_env(environ) == policy
    assert environ["OMP_NUM_THREADS"] == "1"
    assert environ["SGLANG_CPU_OMP_THREADS_BIND"] == "1"
    assert environ["CUDA_VISIBLE_DEVICES"] == ""
    assert "PROMETHEUS_MULTIPROC_DIR" not in environ


def test_stock_engine_gets_no_policy_settings() -> None:
    stock = replace(CPU, cache=CacheBackend.STOCK, policy=PolicySettings(policy="lru"))
    assert not [name for name in environment(stock, {}) if name.startswith("PBKV_ENGINE_")]


def test_gpu_environment_keeps_the_devices_it_was_given() -> None:
    environ = environment(replace(CPU, device=Device.CUDA), {"CUDA_VISIBLE_DEVICES": "3"})
    assert environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert "OMP_NUM_THREADS" not in environ


def test_auto_device_follows_the_driver(tmp_path: Path) -> None:
    driver = tmp_path / "nvidiactl"
    assert resolve_device(Device.AUTO, driver) is Device.CPU
    driver.touch()
    assert resolve_device(Device.AUTO, driver) is Device.CUDA
    assert resolve_device(Device.CPU, driver) is Device.CPU


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"port": 0}, "port is 0"),
        ({"kv_tokens": 8}, "less than one page of 16"),
        ({"tp": 0}, "tp is 0"),
        ({"host_ratio": -1.0}, "host_ratio is -1.0"),
        ({"cpu_cores": "0;1"}, "cpu_cores is '0;1'"),
        ({"cpu_cores": "0", "tp": 2}, "each of 2 ranks"),
        ({"device": "tpu"}, "choose one of: auto, cpu, cuda"),
        ({"cache": "redis"}, "choose one of: pbkv, stock, session"),
    ],
)
def test_impossible_options_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidEngineOptions, match=message):
        replace(CPU, **change)
