"""The Serve deployment: its options and what of it may change while it runs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ray", reason="the engine extra is not installed (make install)")

from ray.serve._private.api import call_user_app_builder_with_args_if_necessary

from services.errors import ReconfigureRefused
from services.replica import build_app, drain_limit
from services.settings import replica_settings


def test_a_serve_configuration_builds_the_application() -> None:
    app = call_user_app_builder_with_args_if_necessary(
        build_app, {"model": "tiny", "num_replicas": 3, "num_gpus": 1, "drain_limit_s": 100}
    )
    deployment = app._bound_deployment
    assert deployment.name == "EngineReplica"
    assert deployment.num_replicas == 3
    assert deployment.ray_actor_options == {"num_cpus": 0.1, "num_gpus": 1.0}
    config = deployment._deployment_config
    assert config.health_check_period_s == 1
    assert config.graceful_shutdown_timeout_s > 100
    assert replica_settings(deployment.init_args[0]).drain_limit_s == 100


def test_a_misspelt_setting_fails_in_the_configuration() -> None:
    with pytest.raises(ValueError, match="kv_tokns"):
        call_user_app_builder_with_args_if_necessary(build_app, {"model": "tiny", "kv_tokns": 1})


@pytest.mark.parametrize("limit_s", [0, 30, 600.0])
def test_the_drain_limit_may_be_lowered(limit_s: float) -> None:
    assert drain_limit({"drain_limit_s": limit_s}, granted_s=600.0) == limit_s


@pytest.mark.parametrize(
    ("user_config", "message"),
    [
        ({"policy": "lru"}, "policy cannot change"),
        ({"drain_limit_s": 700}, "must be 0 to 600"),
        ({"drain_limit_s": -1}, "must be 0 to 600"),
        ({"drain_limit_s": "long"}, "must be a number"),
        ({"drain_limit_s": True}, "must be a number"),
    ],
)
def test_everything_else_needs_a_new_replica(user_config: dict[str, Any], message: str) -> None:
    with pytest.raises(ReconfigureRefused, match=message):
        drain_limit(user_config, granted_s=600.0)
