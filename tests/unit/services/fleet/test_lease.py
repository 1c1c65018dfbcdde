"""Leader election on a real lease object."""

from __future__ import annotations

from services.fleet.cluster import Cluster
from services.fleet.lease import DURATION_S, Lease
from tests.chart.apiserver import ApiServer, Fault
from tests.chart.apiserver.faults import Kind

PATH = "/apis/coordination.k8s.io/v1/namespaces/pbkv/leases/fleet"


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def lease(cluster: Cluster, identity: str, clock: Clock) -> Lease:
    return Lease(
        cluster, "pbkv", "fleet", identity, clock=clock, wall_clock=lambda: 1.8e9 + clock()
    )


def test_the_first_leads_and_keeps_it(cluster: Cluster) -> None:
    clock = Clock()
    first, second = lease(cluster, "a", clock), lease(cluster, "b", clock)
    assert first.hold() and not second.hold()
    for _ in range(10):
        clock.now_s += DURATION_S - 1
        assert first.hold() and not second.hold()
    assert cluster.get(PATH)["spec"]["holderIdentity"] == "a"
    assert cluster.get(PATH)["spec"]["leaseTransitions"] == 0


def test_a_dead_leader_is_followed_after_its_duration(cluster: Cluster) -> None:
    clock = Clock()
    first, second = lease(cluster, "a", clock), lease(cluster, "b", clock)
    first.hold()
    assert not second.hold()
    clock.now_s += DURATION_S - 0.1
    assert not second.hold()
    clock.now_s += 0.2
    assert second.hold()
    assert not first.held
    assert not first.hold()
    assert cluster.get(PATH)["spec"]["leaseTransitions"] == 1


def test_of_two_that_take_it_at_once_one_wins(cluster: Cluster) -> None:
    clock = Clock()
    dead = lease(cluster, "dead", clock)
    dead.hold()
    takers = [lease(cluster, name, clock) for name in "ab"]
    assert not any(taker.hold() for taker in takers)
    clock.now_s += DURATION_S + 1
    assert sorted(taker.hold() for taker in takers) == [False, True]


def test_it_is_kept_through_a_short_outage_and_not_through_a_long_one(
    api: ApiServer, cluster: Cluster
) -> None:
    clock = Clock()
    first = lease(cluster, "a", clock)
    assert first.hold()
    api.faults.plan(Fault(Kind.REFUSE, "leases", times=2))
    clock.now_s += DURATION_S - 1
    assert first.hold()
    clock.now_s += 2
    assert not first.hold()
    assert first.hold()


def test_a_released_lease_is_taken_at_once(cluster: Cluster) -> None:
    clock = Clock()
    first, second = lease(cluster, "a", clock), lease(cluster, "b", clock)
    first.hold()
    first.release()
    assert second.hold()
    assert not first.held
