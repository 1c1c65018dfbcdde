"""The heartbeat against a real Redis that comes and goes."""

from __future__ import annotations

from services.engine.metrics import EngineLoad
from services.registration import TTL_S, Registration, ReplicaIdentity, ReplicaState
from tests.redis_server import RedisServer

IDENTITY = ReplicaIdentity("r1", "http://127.0.0.1:33600", "tiny", epoch=1234)
KEY = "pbkv:replica:r1"
LOAD = EngineLoad(
    kv_tokens_total=4096,
    kv_tokens_used=1024,
    kv_tokens_active=768,
    kv_tokens_retired=256,
    workflows=5,
    running_requests=3,
    queued_requests=2,
    hit_rate=0.25,
)


class Reading:
    """The latest load, None when the engine is dead."""

    def __init__(self) -> None:
        self.load: EngineLoad | None = LOAD

    def __call__(self) -> EngineLoad | None:
        return self.load


def registration(server: RedisServer, reading: Reading) -> Registration:
    return Registration(IDENTITY, server.url, reading, heartbeat_s=0.02, wall_clock=lambda: 99.5)


async def test_one_beat_writes_every_field_and_a_time_to_live(redis_server: RedisServer) -> None:
    entry = registration(redis_server, Reading())
    assert await entry.beat()
    assert redis_server.client.hgetall(KEY) == {
        "url": "http://127.0.0.1:33600",
        "state": "starting",
        "model": "tiny",
        "epoch": "1234",
        "kv_tokens_total": "4096",
        "kv_tokens_used": "1024",
        "kv_tokens_active": "768",
        "kv_tokens_retired": "256",
        "workflows": "5",
        "running_requests": "3",
        "queued_requests": "2",
        "hit_rate": "0.2500",
        "updated_at": "99.500",
    }
    assert 0 < redis_server.client.ttl(KEY) <= TTL_S
    await entry.close()


def test_a_forecast_is_published_once_it_was_judged(redis_server: RedisServer) -> None:
    fields = registration(redis_server, Reading()).fields(EngineLoad(forecast_accuracy=0.5))
    assert fields["forecast_accuracy"] == "0.5000"


async def test_a_state_is_published_when_it_is_entered(redis_server: RedisServer) -> None:
    entry = registration(redis_server, Reading())
    for state in (ReplicaState.READY, ReplicaState.DRAINING):
        await entry.enter(state)
        assert redis_server.client.hget(KEY, "state") == state.value
    await entry.close()


async def test_beats_survive_a_redis_that_lost_its_data(redis_server: RedisServer) -> None:
    entry = registration(redis_server, Reading())
    await entry.enter(ReplicaState.READY)
    redis_server.kill()
    assert not await entry.beat()
    assert not await entry.beat()
    redis_server.start(keep_data=False)
    assert redis_server.client.hgetall(KEY) == {}
    assert await entry.beat()
    assert redis_server.client.hget(KEY, "state") == "ready"
    await entry.close()


async def test_an_entry_of_a_dead_engine_is_removed_at_once(redis_server: RedisServer) -> None:
    reading = Reading()
    entry = registration(redis_server, reading)
    await entry.beat()
    reading.load = None
    await entry.beat()
    assert not redis_server.client.exists(KEY)
    await entry.close()


async def test_close_removes_the_entry_and_its_events(redis_server: RedisServer) -> None:
    entry = registration(redis_server, Reading())
    entry.start()
    await entry.beat()
    redis_server.client.xadd("pbkv:events:r1", {"kind": "start"})
    await entry.close()
    assert redis_server.client.keys("*") == []


async def test_close_without_redis_is_no_error(redis_server: RedisServer) -> None:
    entry = registration(redis_server, Reading())
    entry.start()
    redis_server.kill()
    await entry.close()


async def test_a_replica_that_is_asked_drains_until_the_request_is_gone(
    redis_server: RedisServer,
) -> None:
    entry = registration(redis_server, Reading())
    redis_server.client.set("pbkv:drain:r1", "node n1 is cordoned")
    await entry.enter(ReplicaState.STARTING)
    assert redis_server.client.hget(KEY, "state") == "starting"
    await entry.enter(ReplicaState.READY)
    assert redis_server.client.hget(KEY, "state") == "draining"
    redis_server.client.delete("pbkv:drain:r1")
    await entry.beat()
    assert redis_server.client.hget(KEY, "state") == "ready"
    await entry.close()
