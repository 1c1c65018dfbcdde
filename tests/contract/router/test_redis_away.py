"""Redis dies and comes back, with its data or without: requests are served all the time."""

import asyncio
import logging
import os
import signal

import pytest
from redis.exceptions import RedisError

from router.pins import WorkflowKey
from router.serving import Serving
from router.settings import RouterSettings
from tests.contract.router.stack import (
    eventually,
    restart,
    running_fleet,
    running_router,
)
from tests.redis_server import RedisServer


@pytest.fixture
def mortal(tmp_path):
    """A Redis of this test alone, to be killed."""
    server = RedisServer(tmp_path / "redis")
    server.folder.mkdir()
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def mortal_fleet(mortal):
    async with running_fleet(mortal.url) as fleet:
        await fleet.add("a")
        await fleet.add("b")
        yield fleet


def away(router):
    return not router.serving.link.available


def back(router):
    return router.serving.link.available


def count(caplog, words):
    return sum(words in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("keep_data", [True, False])
async def test_killed_and_restarted(mortal, mortal_fleet, caplog, keep_data):
    caplog.set_level(logging.INFO)
    fleet = mortal_fleet
    async with running_router(mortal.url) as router:
        pinned = (await router.chat("old")).headers["x-pbkv-replica"]
        await router.chat("ending")
        mortal.kill()
        answers = [await router.chat("old") for _ in range(3)]
        assert {a.status_code for a in answers} == {200}
        assert {a.headers["x-pbkv-replica"] for a in answers} == {pinned}
        new = (await router.chat("new")).headers["x-pbkv-replica"]
        assert (await router.chat("new")).headers["x-pbkv-replica"] == new
        assert (await router.http.delete("/v1/workflows/ending")).status_code == 204
        # Known workflows can still be looked at, and readiness holds.
        assert (await router.http.get("/v1/workflows/new")).json()["step"] == 2
        unknown = await router.http.get("/v1/workflows/unknown")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (503, "state_unavailable")
        listed = (await router.http.get("/v1/workflows")).json()["data"]
        assert {view["id"] for view in listed} == {"old", "new", "ending"}
        assert (await router.http.get("/ready")).status_code == 200
        assert away(router)
        assert router.metric("pbkv_router_events_queued") == 2

        await restart(mortal, keep_data=keep_data)
        await eventually(lambda: back(router))
        # What happened meanwhile is in Redis, pins and events.
        assert (await fleet.workflow("new"))["replica"] == new
        assert (await fleet.workflow("new"))["step"] == "2"
        assert (await fleet.workflow("old"))["step"] == "4"
        assert (await fleet.workflow("ending"))["state"] == "retired"
        events = await fleet.events("a") + await fleet.events("b")
        told = [(e["kind"], e["workflow"]) for e in events]
        assert told.count(("start", "default:new")) == 1
        assert told.count(("terminate", "default:ending")) == 1
        assert told.count(("start", "default:old")) == (1 if keep_data else 0)
        assert router.metric("pbkv_router_events_queued") == 0
        # And life goes on where it was.
        assert (await router.chat("old")).headers["x-pbkv-replica"] == pinned
        assert (await fleet.workflow("old"))["step"] == "5"
        assert (await fleet.workflow("old"))["epoch"] == "1"
        seqs = [r.invocation["seq"] for r in fleet.requests() if "old" in r.invocation["workflow"]]
        assert seqs == sorted(set(seqs))
    assert count(caplog, "redis is away, serving") == 1
    assert count(caplog, "redis is back") == 1
    assert moves(router) == 0


def moves(router):
    registry = router.serving.metrics.registry
    return sum(
        sample.value
        for family in registry.collect()
        if family.name == "pbkv_pin_moves"
        for sample in family.samples
        if sample.name.endswith("_total")
    )


async def test_two_routers_agree_while_it_is_away(mortal, mortal_fleet):
    async with running_router(mortal.url) as one, running_router(mortal.url) as two:
        mortal.kill()
        for i in range(12):
            answers = await asyncio.gather(*[r.chat(f"w{i}") for r in (one, two, one, two)])
            assert len({a.headers["x-pbkv-replica"] for a in answers}) == 1
        await restart(mortal, keep_data=False)
        await eventually(lambda: back(one) and back(two))
        for i in range(12):
            workflow = await mortal_fleet.workflow(f"w{i}")
            assert (workflow["state"], workflow["epoch"]) == ("active", "1")
            before = workflow["replica"]
            for router in (one, two):
                assert (await router.chat(f"w{i}")).headers["x-pbkv-replica"] == before


async def test_a_replica_lost_meanwhile(mortal, mortal_fleet):
    fleet = mortal_fleet
    async with running_router(mortal.url) as router:
        pinned = (await router.chat()).headers["x-pbkv-replica"]
        other = "b" if pinned == "a" else "a"
        mortal.kill()
        await fleet.engines[pinned].stop()
        fleet.entries.pop(pinned)
        assert (await router.chat()).headers["x-pbkv-replica"] == other
        await restart(mortal, keep_data=True)
        await eventually(lambda: back(router))
        workflow = await fleet.workflow()
        assert (workflow["replica"], workflow["epoch"]) == (other, "2")
        assert await fleet.kinds(other) == ["start"]
        assert await fleet.kinds(pinned) == ["start", "terminate"]
        assert (await router.chat()).headers["x-pbkv-replica"] == other


async def test_flushed_in_a_running_redis(mortal, mortal_fleet):
    """No connection breaks, the data is gone all the same."""
    fleet = mortal_fleet
    async with running_router(mortal.url) as router:
        pinned = [(await router.chat(f"w{i}")).headers["x-pbkv-replica"] for i in range(6)]
        fleet.beating = False
        await fleet.client.flushall()
        marker = router.serving.directory._marker
        await eventually(lambda: router.serving.directory._marker != marker)
        assert len(router.serving.directory.ready()) == 2
        again = [(await router.chat(f"w{i}")).headers["x-pbkv-replica"] for i in range(6)]
        assert again == pinned
        fleet.beating = True
        assert [(await fleet.workflow(f"w{i}"))["step"] for i in range(6)] == ["2"] * 6
        assert moves(router) == 0
        await eventually(lambda: not router.serving.directory.trusted())


async def test_trust_ends(mortal, mortal_fleet):
    """Replicas that do not register again after the loss are gone."""
    async with running_router(mortal.url, heartbeat_ttl_s=0.3) as router:
        mortal_fleet.beating = False
        await mortal_fleet.client.flushall()
        await eventually(lambda: router.serving.directory.all() == [])
        assert (await router.chat()).status_code == 503


async def test_started_without_redis(mortal, mortal_fleet):
    mortal.kill()
    async with running_router(mortal.url) as router:
        assert (await router.http.get("/health")).status_code == 200
        assert (await router.chat()).status_code == 503
        await restart(mortal, keep_data=False)
        await eventually(router.serving.directory.ready)
        assert (await router.chat()).status_code == 200


async def test_a_redis_that_hangs(mortal, mortal_fleet):
    """Stopped, not dead: connections are taken and nothing is answered."""
    async with running_router(mortal.url, redis_timeout_s=0.5) as router:
        await eventually(lambda: back(router) and router.serving.directory.ready())
        pinned = (await router.chat()).headers["x-pbkv-replica"]
        os.kill(mortal._process.pid, signal.SIGSTOP)
        try:
            answers = await asyncio.gather(*[router.chat() for _ in range(8)])
            assert {a.headers["x-pbkv-replica"] for a in answers} == {pinned}
            assert away(router)
        finally:
            os.kill(mortal._process.pid, signal.SIGCONT)
        await eventually(lambda: back(router))
        assert (await router.chat()).headers["x-pbkv-replica"] == pinned


async def test_events_are_flushed_at_the_exit(mortal, mortal_fleet):
    fleet = mortal_fleet
    async with running_router(mortal.url, refresh_s=30) as router:
        await router.chat()
        mortal.kill()
        await router.http.delete("/v1/workflows/w")
        await restart(mortal, keep_data=True)
        assert away(router)

    async def told():
        try:
            return "terminate" in await fleet.kinds("a") + await fleet.kinds("b")
        except RedisError:
            return False

    await eventually(told)


async def test_a_cancellation_is_never_swallowed(redis_url):
    """Whatever moment of a command it hits; redis-py alone misses one in ten."""
    serving = Serving.build(RouterSettings(redis_url=redis_url))
    for steps in range(60):

        async def ask_and_wait():
            await serving.link.ask(lambda: serving.store.read(WorkflowKey("default", "w")))
            await asyncio.Event().wait()

        task = asyncio.create_task(ask_and_wait())
        for _ in range(steps % 30):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), timeout=5)
        assert task.cancelled()
    await serving.link.close()
