"""The watcher against the stand-in API server and a real Redis."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.fleet.cluster import Cluster
from services.fleet.drains import REQUEST_TTL_S, DrainRequests, RedisAway
from services.fleet.leaving import DELETION_COST
from services.fleet.run import FleetOptions, run_fleet
from services.ports import free_port
from tests.chart.apiserver import ApiServer, Fault
from tests.chart.apiserver.faults import Kind
from tests.chart.helm import CHART
from tests.redis_server import RedisServer
from tests.unit.services.fleet import objects
from tests.waiting import wait_until


class Running:
    """A watcher in a thread."""

    def __init__(self, redis_url: str, cluster: Cluster) -> None:
        self.port = free_port()
        self.stopped = threading.Event()
        options = FleetOptions(
            redis_url=redis_url,
            namespace=objects.NAMESPACE,
            selector="app.kubernetes.io/component=engine",
            lease="fleet",
            identity="w1",
            health_port=self.port,
        )
        self.thread = threading.Thread(target=run_fleet, args=(options, cluster, self.stopped))

    def health(self) -> int:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/health", timeout=5
            ) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as problem:
            return problem.code


@pytest.fixture
def watcher(api: ApiServer, cluster: Cluster, redis_server: RedisServer) -> Iterator[Running]:
    api.add(objects.node())
    api.add(objects.pod())
    objects.register(redis_server.client, "r1", "10.0.0.1", workflows=2)
    running = Running(redis_server.url, cluster)
    running.thread.start()
    yield running
    running.stopped.set()
    # Its loop is woken by the next change, or after a few seconds.
    api.add(objects.pod("last", "10.0.0.99"))
    running.thread.join(20)
    assert not running.thread.is_alive()


def drain(redis: Any, replica: str = "r1") -> str | None:
    return redis.get(f"pbkv:drain:{replica}")


def events(api: ApiServer) -> list[tuple[str, str, str]]:
    kind = api.discovery.find("v1", "events")
    assert kind
    return [
        (event["involvedObject"]["kind"], event["involvedObject"]["name"], event["reason"])
        for _, event in api.store.list(kind)
    ]


def test_a_cordon_drains_and_its_end_brings_the_replica_back(
    api: ApiServer, redis_server: RedisServer, watcher: Running
) -> None:
    redis = redis_server.client
    api.add(objects.node(cordoned=True))
    wait_until(lambda: drain(redis) == "node n1 is cordoned")
    assert 0 < redis.ttl("pbkv:drain:r1") <= REQUEST_TTL_S
    assert redis.hget("pbkv:replica:r1", "state") == "draining"
    wait_until(lambda: events(api) == [("Pod", "engine-1", "ReplicaDraining")])
    api.add(objects.node())
    wait_until(lambda: drain(redis) is None)
    assert watcher.health() == 200


def test_what_others_asked_of_their_replicas_stands(
    api: ApiServer, redis_server: RedisServer, watcher: Running
) -> None:
    redis = redis_server.client
    objects.register(redis, "theirs", "10.9.9.9")
    redis.set("pbkv:drain:theirs", "by hand")
    redis.set("pbkv:drain:r1", "by hand")
    api.add(objects.pod("another", "10.0.0.5"))
    wait_until(lambda: drain(redis) is None)
    assert drain(redis, "theirs") == "by hand"


def test_a_pod_that_is_deleted_drains_before_it_ends(
    api: ApiServer, redis_server: RedisServer, watcher: Running
) -> None:
    api.add(objects.pod("worker-1", "10.0.0.7", ray_service="pbkv-engine-m"))
    objects.register(redis_server.client, "r7", "10.0.0.7")
    going = objects.pod("worker-1", "10.0.0.7", ray_service="pbkv-engine-m", deleting=True)
    api.add(going)
    wait_until(lambda: drain(redis_server.client, "r7") == "pod worker-1 is being deleted")
    wait_until(lambda: ("RayService", "pbkv-engine-m", "ReplicaDraining") in events(api))
    assert drain(redis_server.client) is None


def test_pods_carry_the_number_of_their_workflows(
    api: ApiServer, redis_server: RedisServer, watcher: Running
) -> None:
    def cost() -> str | None:
        found = api.store.get(api.key("v1", "Pod", {"name": "engine-1", "namespace": "pbkv"}))
        assert found
        return found["metadata"].get("annotations", {}).get(DELETION_COST)

    wait_until(lambda: cost() == "2")


def test_faults_of_api_and_redis_are_outlived(
    api: ApiServer, redis_server: RedisServer, watcher: Running
) -> None:
    redis_server.kill()
    api.faults.plan(Fault(Kind.GONE, "nodes.*watch=true"))
    api.faults.plan(Fault(Kind.REFUSE, "leases", times=2))
    api.add(objects.node(cordoned=True))
    redis_server.start()
    wait_until(lambda: drain(redis_server.client) == "node n1 is cordoned")


def test_a_request_does_not_touch_a_replica_that_is_still_starting(
    redis_server: RedisServer,
) -> None:
    requests = DrainRequests(redis_server.url)
    redis_server.client.hset("pbkv:replica:r1", "state", "starting")
    requests.ask("r1", "why")
    requests.ask("gone", "why")
    assert redis_server.client.hget("pbkv:replica:r1", "state") == "starting"
    assert not redis_server.client.exists("pbkv:replica:gone")
    assert requests.asked() == {"r1": "why", "gone": "why"}
    requests.close()


def test_redis_that_is_away_is_named() -> None:
    requests = DrainRequests(f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(RedisAway, match="redis: "):
        requests.replicas()


def test_the_role_grants_exactly_what_was_asked_for(
    api: ApiServer, redis_server: RedisServer, watcher: Running
) -> None:
    redis = redis_server.client
    api.add(objects.node(cordoned=True))
    wait_until(lambda: drain(redis) and events(api))
    wait_until(lambda: len([1 for m, p, _ in api.log if m == "PATCH"]) > 0)
    wait_until(lambda: len([1 for m, p, _ in api.log if m == "PUT" and "leases" in p]) > 0)
    # A watch is logged when it ends: the client's reads say as much.
    used = {("watch", "nodes"), ("watch", "pods")}
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch"}
    for method, path, _ in list(api.log):
        words = path.partition("?")[0].split("/")
        resource = next(w for w in ("nodes", "pods", "events", "leases") if w in words)
        named = words[-1] != resource
        if method == "GET":
            verb = "watch" if "watch=true" in path else "get" if named else "list"
        else:
            verb = verbs[method]
        used.add((verb, resource))
    text = (CHART / "templates/fleet/rbac.yaml").read_text()
    granted = set()
    for block in text.split("- apiGroups:")[1:]:
        (resources,) = [line for line in block.splitlines() if "resources: [" in line]
        (allowed,) = [line for line in block.splitlines() if "verbs: [" in line]
        for resource in yaml.safe_load(resources)["resources"]:
            granted |= {(verb, resource) for verb in yaml.safe_load(allowed)["verbs"]}
    assert used == granted


def test_the_command_runs_until_it_is_told_to_end(
    api: ApiServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    api.add(objects.node(cordoned=True))
    api.add(objects.pod())
    objects.register(redis_server.client, "r1", "10.0.0.1")
    argv = [sys.executable, "-m", "services.cli.main", "serve", "fleet"]
    argv += ["--namespace", objects.NAMESPACE, "--selector", "app.kubernetes.io/component=engine"]
    argv += ["--redis-url", redis_server.url, "--health-port", str(free_port())]
    argv += ["--kubeconfig", str(api.kubeconfig(tmp_path / "kubeconfig"))]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: drain(redis_server.client))
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, log
    assert "replica r1: node n1 is cordoned; it drains" in log
    lease = api.store.get(
        api.key("coordination.k8s.io/v1", "Lease", {"name": "pbkv-fleet", "namespace": "pbkv"})
    )
    assert lease and lease["spec"]["holderIdentity"] == ""
