"""What a pod runs before it may be ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.fleet.drains import DrainRequests, RedisAway
from services.fleet.leave import leave, main
from services.fleet.leaving import PlacedReplica
from tests.redis_server import RedisServer
from tests.unit.services.fleet import objects

ADDRESS = "10.0.0.1"


@dataclass
class Time:
    """A clock that only sleeping moves; ``at`` does something when it is reached."""

    now_s: float = 0.0
    at: dict[float, object] = field(default_factory=dict)

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for due_at_s in [t for t in self.at if t <= self.now_s]:
            self.at.pop(due_at_s)()  # type: ignore[operator]


@dataclass
class Requests:
    """Two replicas at the pod's address and one elsewhere."""

    workflows: int = 1
    away: bool = False
    drained: set[str] = field(default_factory=set)

    def replicas(self) -> list[PlacedReplica]:
        if self.away:
            raise RedisAway("redis: gone")
        return [
            PlacedReplica("r1", ADDRESS, self.workflows),
            PlacedReplica("r2", ADDRESS, 0),
            PlacedReplica("other", "10.0.0.2", 9),
        ]

    def ask(self, replica_id: str, reason: str) -> None:
        self.drained.add(replica_id)

    def withdraw(self, replica_id: str) -> None:
        raise AssertionError("a pod that goes takes nothing back")

    def asked(self) -> dict[str, str]:
        return {}


def test_it_waits_for_the_workflows_of_its_own_replicas() -> None:
    requests, time = Requests(), Time()
    time.at[20.0] = lambda: setattr(requests, "workflows", 0)
    assert leave(requests, ADDRESS, 600, clock=time.clock, sleep=time.sleep)
    assert 20 <= time.now_s < 30
    assert requests.drained == {"r1", "r2"}


def test_it_gives_up_at_the_limit() -> None:
    time = Time()
    assert not leave(Requests(), ADDRESS, 60, clock=time.clock, sleep=time.sleep)
    assert 60 <= time.now_s < 62


def test_a_redis_that_is_away_says_nothing_about_workflows() -> None:
    requests, time = Requests(workflows=0, away=True), Time()
    time.at[30.0] = lambda: setattr(requests, "away", False)
    assert leave(requests, ADDRESS, 600, clock=time.clock, sleep=time.sleep)
    assert time.now_s >= 30


def test_the_command_drains_a_real_entry(redis_server: RedisServer) -> None:
    objects.register(redis_server.client, "r1", ADDRESS, workflows=1)
    environ = {"PBKV_REDIS_URL": redis_server.url, "POD_IP": ADDRESS}
    assert main(["--limit-seconds", "0.1"], environ) == 0
    assert DrainRequests(redis_server.url).asked() == {"r1": "its pod is being deleted"}


def test_what_is_missing_is_named(capsys) -> None:  # type: ignore[no-untyped-def]
    assert main(["--limit-seconds", "1"], {"POD_IP": ADDRESS}) == 2
    assert capsys.readouterr().err == "error: PBKV_REDIS_URL is not set\n"


def test_an_address_that_cannot_be_read_is_one_line(capsys) -> None:  # type: ignore[no-untyped-def]
    environ = {"PBKV_REDIS_URL": "redis+sentinel://:s3cret@h1,h2", "POD_IP": ADDRESS}
    assert main(["--limit-seconds", "1"], environ) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: PBKV_REDIS_URL: redis URL: name the master")
    assert printed.count("\n") == 1
    assert "s3cret" not in printed
