"""A mirror of a collection, through everything that can happen to a watch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from services.fleet.cluster import Cluster
from services.fleet.errors import Conflict, NotFound, Unreachable
from services.fleet.watching import Mirror
from tests.chart.apiserver import ApiServer, Fault
from tests.chart.apiserver.faults import Kind
from tests.unit.services.fleet import objects
from tests.waiting import wait_until

PODS = "/api/v1/namespaces/pbkv/pods"
ENGINES = "app.kubernetes.io/component=engine"


@pytest.fixture
def mirror(cluster: Cluster) -> Iterator[Callable[[], Mirror]]:
    started: list[Mirror] = []

    def start() -> Mirror:
        each = Mirror(
            cluster,
            PODS,
            threading.Event().set,
            selector=ENGINES,
            watch_s=1.0,
            first_pause_s=0.02,
        )
        started.append(each)
        each.start()
        return each

    yield start
    for each in started:
        each.stop()


def names(mirror: Mirror) -> list[str]:
    return sorted(item["metadata"]["name"] for item in mirror.items())


def test_it_begins_with_what_is_there_and_follows_every_change(
    api: ApiServer, mirror: Callable[[], Mirror]
) -> None:
    api.add(objects.pod("a"))
    api.add(objects.pod("router", component="router"))
    pods = mirror()
    wait_until(lambda: names(pods) == ["a"])
    api.add(objects.pod("b", "10.0.0.2"))
    wait_until(lambda: names(pods) == ["a", "b"])
    api.store.remove(api.key("v1", "Pod", {"name": "a", "namespace": "pbkv"}))
    wait_until(lambda: names(pods) == ["b"])
    # Everything was read once; the rest came by the watch.
    assert len([path for _, path, _ in api.log if "watch" not in path]) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Fault(Kind.REFUSE, r"pods\?labelSelector", times=3),
        Fault(Kind.REFUSE, "watch=true", code=503, times=3),
        Fault(Kind.REFUSE, "watch=true", code=429),
        Fault(Kind.CUT, "watch=true", times=2),
        Fault(Kind.CUT, r"pods\?labelSelector"),
        Fault(Kind.GONE, "watch=true", times=2),
        Fault(Kind.REFUSE, "watch=true", code=410),
        Fault(Kind.HANG, "watch=true"),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.code}-{fault.path[:5]}",
)
def test_no_fault_makes_it_miss_a_change(
    api: ApiServer, mirror: Callable[[], Mirror], fault: Fault
) -> None:
    api.add(objects.pod("a"))
    api.faults.plan(fault)
    pods = mirror()
    wait_until(lambda: names(pods) == ["a"] and api.faults.left == 0)
    api.add(objects.pod("b", "10.0.0.2"))
    wait_until(lambda: names(pods) == ["a", "b"])


def test_after_a_lost_version_deleted_objects_are_gone(
    api: ApiServer, mirror: Callable[[], Mirror]
) -> None:
    api.add(objects.pod("a"))
    api.add(objects.pod("b", "10.0.0.2"))
    api.faults.plan(Fault(Kind.HANG, "watch=true"))
    pods = mirror()
    wait_until(lambda: api.faults.left == 0 and len(names(pods)) == 2)
    # While its watch hangs, something goes and the server forgets that it was there.
    api.store.remove(api.key("v1", "Pod", {"name": "a", "namespace": "pbkv"}))
    api.store.compact()
    wait_until(lambda: names(pods) == ["b"])


def test_errors_have_their_kind(api: ApiServer, cluster: Cluster) -> None:
    with pytest.raises(NotFound, match="404"):
        cluster.get(f"{PODS}/nobody")
    cluster.create(PODS, {**objects.pod("a"), "metadata": {"name": "a"}})
    with pytest.raises(Conflict, match="already exists"):
        cluster.create(PODS, {**objects.pod("a"), "metadata": {"name": "a"}})
    api.faults.plan(Fault(Kind.CUT, "pods"))
    with pytest.raises(Unreachable):
        cluster.get(PODS)
