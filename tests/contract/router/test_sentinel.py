"""The master of a replicated Redis dies, hangs or is moved: all who use it follow its Sentinels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pbkv.sglang.stream import EventStream
from services.doctor.finding import Verdict
from services.doctor.stack import check_redis
from services.engine.metrics import EngineLoad
from services.fleet.drains import DrainRequests, RedisAway
from services.registration import Registration, ReplicaIdentity
from services.training.errors import StreamAway
from services.training.stream import TraceStream
from tests.contract.router.stack import Fleet, Router, eventually, running_fleet, running_router
from tests.redis_sentinel import RedisSet


@pytest.fixture
def redis_set(tmp_path: Path) -> Iterator[RedisSet]:
    servers = RedisSet(tmp_path)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@dataclass
class Stack:
    """One of everything that is given the URL of Redis."""

    servers: RedisSet
    fleet: Fleet
    router: Router
    events: EventStream
    registration: Registration
    drains: DrainRequests
    traces: TraceStream
    told: list

    def kinds(self, workflow: str) -> list[str]:
        """What the replica's policy has heard of a workflow, each event once."""
        self.told += self.events.drain()
        mine = {e.seq: e for e in self.told if e.workflow_id.endswith(workflow)}
        return [mine[seq].kind.value for seq in sorted(mine)]


@pytest.fixture
async def stack(redis_set: RedisSet) -> AsyncIterator[Stack]:
    url = redis_set.url
    # A heartbeat that hangs must be free again before its entry is given up.
    async with running_fleet(url, timeout_s=0.5) as fleet:
        await fleet.add("a")
        events = EventStream(url, "a", on_malformed=lambda: None)
        events.start()
        registration = Registration(
            ReplicaIdentity("b", "http://127.0.0.1:9", "other", epoch=1),
            url,
            EngineLoad,
            heartbeat_s=0.1,
        )
        registration.start()
        drains, traces = DrainRequests(url), TraceStream(url)
        try:
            async with running_router(url) as router:
                yield Stack(redis_set, fleet, router, events, registration, drains, traces, [])
        finally:
            await asyncio.to_thread(events.stop)
            await registration.close()
            drains.close()
            traces.close()


def within_a_failover(look: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    """One command fails when its client finds that the master is another; then it is repeated.

    In a thread, as everything here that blocks: heartbeats must go on.
    """

    async def repeated() -> bool:
        try:
            return await asyncio.to_thread(look)
        except (RedisAway, StreamAway):
            return False

    return repeated


async def serves_on(stack: Stack, pinned: str, old: int) -> None:
    """Everything works against a master that is not ``old``."""
    router, fleet = stack.router, stack.fleet

    async def moved() -> bool:
        return await asyncio.to_thread(stack.servers.master) != old

    await eventually(moved)
    # While there is no master the router answers from memory.
    assert (await router.chat("w")).headers["x-pbkv-replica"] == pinned
    pool = router.serving.link.client.connection_pool
    await eventually(lambda: pool.master_address[1] != old and router.serving.link.available)
    assert (await router.chat("w")).headers["x-pbkv-replica"] == pinned
    assert (await fleet.workflow())["epoch"] == "1"
    await router.chat("after")
    assert (await router.http.delete("/v1/workflows/after")).status_code == 204
    await eventually(lambda: stack.kinds("after")[-1:] == ["terminate"])

    def drained() -> bool:
        if {"a", "b"} <= {replica.replica_id for replica in stack.drains.replicas()}:
            stack.drains.ask("b", "its node goes")
        return stack.registration.asked_to_drain

    def traced() -> bool:
        stack.traces.rewind()
        return "after" in {record.workflow for record in stack.traces.read_all()}

    await eventually(within_a_failover(drained))
    await eventually(within_a_failover(traced))


async def test_the_role_is_moved_and_then_the_master_is_killed(stack: Stack) -> None:
    pinned = (await stack.router.chat("w")).headers["x-pbkv-replica"]
    await eventually(lambda: stack.kinds("w") == ["start"])
    first = await asyncio.to_thread(stack.servers.master)
    await asyncio.to_thread(stack.servers.fail_over)
    await serves_on(stack, pinned, first)
    await eventually(lambda: stack.servers.info(first).get("master_link_status") == "up")
    second = await asyncio.to_thread(stack.servers.master)
    stack.servers.kill(second)
    assert (await stack.router.chat("w")).status_code == 200
    await serves_on(stack, pinned, second)
    found = await asyncio.to_thread(check_redis, stack.servers.url)
    assert [finding.verdict for finding in found] == [Verdict.OK]


@pytest.mark.slow
async def test_a_master_that_hangs_is_left(stack: Stack) -> None:
    pinned = (await stack.router.chat("w")).headers["x-pbkv-replica"]
    old = await asyncio.to_thread(stack.servers.master)
    stack.servers.suspend(old)
    try:
        await serves_on(stack, pinned, old)
    finally:
        stack.servers.resume(old)
    # It believed to be the master; nobody writes to it any more.
    await eventually(lambda: stack.servers.info(old)["role"] == "slave")
    answer = await stack.router.chat("w")
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-pbkv-replica"] == pinned
    assert stack.router.serving.link.available


async def test_one_sentinel_is_enough_to_find_the_master(stack: Stack) -> None:
    for port in stack.servers.sentinels[:2]:
        stack.servers.kill(port)
    async with running_router(stack.servers.url) as second:
        await eventually(second.serving.directory.ready)
        assert (await second.chat("w")).status_code == 200
        assert second.serving.link.available
    assert (await stack.fleet.workflow())["state"] == "active"


async def test_no_sentinel_is_one_line_with_a_fix(redis_set: RedisSet) -> None:
    for port in redis_set.sentinels:
        redis_set.kill(port)
    (found,) = check_redis(redis_set.url)
    assert found.verdict is Verdict.FAILED
    assert found.detail == "none of 3 Sentinels names a master 'mymaster' that is up"
    assert found.fix
    assert "p@ss" not in found.detail
