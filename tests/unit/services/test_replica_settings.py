"""Settings of a replica, from a Serve configuration to the engine's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.engine import CacheBackend, Device
from services.errors import InvalidReplicaSettings
from services.settings import replica_settings

MINIMAL = {"model": "/models/tiny", "device": "cpu"}


def test_every_option_reaches_the_engine() -> None:
    settings = replica_settings(
        {
            **MINIMAL,
            "redis_url": "redis://there:6379/1",
            "policy": "lru",
            "idle_timeout_s": 30,
            "policy_options": {"lookahead_steps": 2},
            "schedule_policy": "lpm",
            "kv_tokens": 4096,
            "context_length": 2048,
            "host_ratio": 2,
            "cpu_cores": ["0", "1"],
            "extra_args": ["--skip-server-warmup"],
            "log_dir": "/logs",
        }
    )
    options = settings.engine_options(
        model_path=Path("/models/tiny"), replica_id="r7", port=33700, local_rank=3
    )
    assert options.served_model_name == "tiny"
    assert options.device is Device.CPU
    assert options.cache is CacheBackend.PBKV
    assert (options.policy.policy, options.policy.idle_timeout_s) == ("lru", 30)
    assert options.policy.lookahead_steps == 2
    assert options.schedule_policy == "lpm"
    assert (options.policy.redis_url, options.policy.replica_id) == ("redis://there:6379/1", "r7")
    assert (options.kv_tokens, options.context_length, options.host_ratio) == (4096, 2048, 2)
    assert options.cpu_cores == "1"
    assert options.extra_args == ("--skip-server-warmup",)
    assert options.log_path == Path("/logs/engine-r7.log")


def test_the_queue_pbkv_is_the_plug_ins_and_any_other_the_engines() -> None:
    settings = replica_settings({**MINIMAL, "schedule_policy": "pbkv"})
    options = settings.engine_options(
        model_path=Path("/models/tiny"), replica_id="r7", port=33700, local_rank=0
    )

    assert (options.policy.queue, options.schedule_policy) == ("pbkv", None)


@pytest.mark.parametrize(
    ("policy", "options", "unit"),
    [("pbkv", {}, "page"), ("pbkv", {"eviction_unit": "node"}, "node"), ("lru", {}, "node")],
)
def test_the_default_policy_evicts_pages_and_those_to_compare_with_whole_nodes(
    policy: str, options: dict[str, str], unit: str
) -> None:
    settings = replica_settings({**MINIMAL, "policy": policy, "policy_options": options})
    engine = settings.engine_options(model_path=Path("/models/tiny"), replica_id="r7", port=33700)

    assert engine.policy.eviction_unit == unit


def test_settings_survive_the_trip_through_json() -> None:
    settings = replica_settings({**MINIMAL, "cpu_cores": ["0"], "log_dir": "/logs"})
    assert replica_settings(settings.model_dump(mode="json")) == settings


def test_routers_get_the_advertised_address() -> None:
    settings = replica_settings({**MINIMAL, "host": "0.0.0.0", "advertised_host": "10.0.0.5"})
    identity = settings.identity(replica_id="r7", port=33700, epoch=5)
    assert identity.url == "http://10.0.0.5:33700"
    assert identity.model == "tiny"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"polcy": "lru"}, "polcy: Extra inputs"),
        ({"kv_tokens": 0}, "kv_tokens: "),
        ({"model": None}, "model: "),
        ({"cache": "redis"}, "cache: "),
    ],
)
def test_malformed_settings_are_refused_on_one_line(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidReplicaSettings, match=message) as caught:
        replica_settings({**MINIMAL, **change})
    assert "\n" not in str(caught.value)


def test_a_context_that_the_pool_can_just_admit_is_taken() -> None:
    settings = replica_settings({**MINIMAL, "kv_tokens": 1024, "context_length": 992})
    options = settings.engine_options(model_path=Path("/m"), replica_id="r7", port=33700)

    assert options.context_length == 992


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "best"}, "unknown policy 'best'"),
        ({"policy_options": {"gama": 1}}, "unknown setting PBKV_ENGINE_GAMA"),
        ({"schedule_policy": "pbkv", "cache": "stock"}, "belongs to the plug-in"),
        ({"cpu_cores": ["x"]}, "cpu_cores is 'x'"),
        ({"kv_tokens": 8}, "less than one page"),
        ({"kv_tokens": 1024, "context_length": 993}, "holds 992 at most"),
    ],
)
def test_settings_that_fit_no_engine_are_refused(change: dict[str, object], message: str) -> None:
    settings = replica_settings({**MINIMAL, **change})
    with pytest.raises(InvalidReplicaSettings, match=message):
        settings.engine_options(model_path=Path("/models/tiny"), replica_id="r7", port=33700)
