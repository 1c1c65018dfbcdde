"""Ray Serve takes a replica away: it ends after its last workflow, and no other goes meanwhile.

Serve, the policy, the deployment's class and Redis are real. Its engine is a fake, because what
matters is when it is ended.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pbkv.keys import REPLICAS_PATTERN
from services.settings import ReplicaSettings
from tests.redis_server import RedisServer
from tests.waiting import wait_until

pytest.importorskip("ray.serve", reason="the engine extra is not installed (make install)")

import ray
from ray import cloudpickle, serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy

from services.replica import build_app
from tests.fakes import scaled_replica

DRAIN_LIMIT_S = 300.0


class Fleet:
    """What the replicas say of themselves in Redis."""

    def __init__(self, server: RedisServer) -> None:
        self._client = server.client

    def states(self) -> dict[str, str]:
        keys = self._client.keys(REPLICAS_PATTERN)
        return {k.rpartition(":")[2]: self._client.hget(k, "state") or "" for k in keys}

    def in_state(self, state: str) -> set[str]:
        return {name for name, found in self.states().items() if found == state}

    def heartbeat_s(self, replica: str) -> float:
        return float(self._client.hget(f"pbkv:replica:{replica}", "updated_at") or 0)

    def finish_workflows(self, *replicas: str) -> None:
        for replica in replicas:
            self._client.set(scaled_replica.load_key(replica), 0)


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas of which two would do, under the settings that the chart gives."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    fleet = Fleet(server)
    cloudpickle.register_pickle_by_value(scaled_replica)
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    try:
        serve.start(proxy_location="Disabled")
        settings = ReplicaSettings(
            model="tiny", redis_url=server.url, drain_limit_s=DRAIN_LIMIT_S, num_replicas=3
        )
        deployment = build_app(settings)._bound_deployment.options(
            func_or_class=scaled_replica.ScaledReplica,
            num_replicas=None,
            autoscaling_config=AutoscalingConfig(
                min_replicas=1,
                initial_replicas=3,
                max_replicas=3,
                downscale_delay_s=2.0,
                look_back_period_s=3.0,
                metrics_interval_s=1.0,
                policy=AutoscalingPolicy(
                    policy_function="services.autoscaling:WorkflowAutoscaling",
                    policy_kwargs={"drain_limit_s": DRAIN_LIMIT_S},
                ),
            ),
        )
        serve.run(deployment.bind(settings.model_dump(mode="json")), name="pbkv", route_prefix=None)
        yield fleet
    finally:
        fleet.finish_workflows(*fleet.states())
        serve.shutdown()
        ray.shutdown()
        cloudpickle.unregister_pickle_by_value(scaled_replica)
        server.kill()


@pytest.mark.slow
def test_a_replica_ends_after_its_last_workflow_and_no_other_goes_meanwhile(fleet: Fleet) -> None:
    (victim,) = wait_until(lambda: fleet.in_state("draining"))
    assert len(fleet.in_state("ready")) == 2
    began_s = fleet.heartbeat_s(victim)
    # Five times the delay after which Serve would take the next one, whose load alone looks like
    # too little for two.
    wait_until(lambda: fleet.heartbeat_s(victim) > began_s + 10.0)
    assert fleet.in_state("draining") == {victim}
    assert len(fleet.in_state("ready")) == 2
    fleet.finish_workflows(victim)
    wait_until(lambda: victim not in fleet.states())
    assert len(fleet.in_state("ready")) == 2
