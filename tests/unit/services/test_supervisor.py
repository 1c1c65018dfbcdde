"""A supervisor over an engine that is a small web server, with a real Redis and its own clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from services.draining import DrainState
from services.engine import EngineExited
from services.errors import ReplicaUnhealthy
from services.ports import free_port
from services.registration import ReplicaIdentity, ReplicaState
from services.supervisor import ReplicaSupervisor
from tests.redis_server import RedisServer

KEY = "pbkv:replica:r1"


class ScriptedEngine:
    """Answers like an engine; what it says is set by the test."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.alive = False
        self.healthy = True
        self.active_workflows = 0
        self.starts = True

    def start(self) -> None:
        self.alive = self.starts

    def is_alive(self) -> bool:
        return self.alive

    def wait_ready(self, timeout_s: float) -> float:
        self.raise_if_dead()
        return 1.5

    def raise_if_dead(self) -> None:
        if not self.alive:
            raise EngineExited("the engine exited with status 9", ())

    def stop(self, grace_s: float = 0.0) -> None:
        self.alive = False

    async def health(self, _request: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            text=f'pbkv_kv_tokens{{state="total"}} 4096\n'
            f'pbkv_workflows{{state="active"}} {self.active_workflows}\n'
        )


@pytest.fixture
async def engine() -> AsyncIterator[ScriptedEngine]:
    engine = ScriptedEngine(free_port())
    app = web.Application()
    app.router.add_get("/health", engine.health)
    app.router.add_get("/metrics", engine.metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(engine.url.rpartition(":")[2])).start()
    yield engine
    await runner.cleanup()


class Steps:
    """A clock that moves only when the supervisor sleeps, and runs a script as it does."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.script: dict[float, object] = {}

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        action = self.script.pop(self.now_s, None)
        if callable(action):
            action()


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
async def supervisor(
    engine: ScriptedEngine, redis_server: RedisServer, steps: Steps
) -> AsyncIterator[ReplicaSupervisor]:
    identity = ReplicaIdentity("r1", engine.url, "tiny", epoch=1)
    supervisor = ReplicaSupervisor(
        engine, identity, redis_server.url, clock=steps.clock, sleep=steps.sleep
    )
    yield supervisor
    await supervisor.stop()


async def test_the_first_ready_entry_has_the_size_of_the_cache(
    supervisor: ReplicaSupervisor, redis_server: RedisServer
) -> None:
    assert await supervisor.start(ready_timeout_s=10) == 1.5
    entry = redis_server.client.hgetall(KEY)
    assert (entry["state"], entry["kv_tokens_total"]) == ("ready", "4096")


async def test_a_failed_start_leaves_no_entry(
    supervisor: ReplicaSupervisor, engine: ScriptedEngine, redis_server: RedisServer
) -> None:
    engine.starts = False
    with pytest.raises(EngineExited, match="status 9"):
        await supervisor.start(ready_timeout_s=10)
    assert not redis_server.client.exists(KEY)


async def test_health_of_a_dead_engine(
    supervisor: ReplicaSupervisor, engine: ScriptedEngine, redis_server: RedisServer
) -> None:
    await supervisor.start(ready_timeout_s=10)
    await supervisor.check_health()
    engine.alive = False
    with pytest.raises(ReplicaUnhealthy, match="exited with status 9"):
        await supervisor.check_health()
    assert not redis_server.client.exists(KEY)


async def test_health_of_an_engine_that_does_not_answer(
    supervisor: ReplicaSupervisor, engine: ScriptedEngine
) -> None:
    await supervisor.start(ready_timeout_s=10)
    engine.healthy = False
    with pytest.raises(ReplicaUnhealthy, match="did not answer"):
        await supervisor.check_health()


async def test_drain_waits_for_workflows_and_says_so(
    supervisor: ReplicaSupervisor,
    engine: ScriptedEngine,
    redis_server: RedisServer,
    steps: Steps,
) -> None:
    await supervisor.start(ready_timeout_s=10)
    engine.active_workflows = 2
    seen: list[str | None] = []
    steps.script[20.0] = lambda: seen.append(redis_server.client.hget(KEY, "state"))
    steps.script[30.0] = lambda: setattr(engine, "active_workflows", 0)
    assert await supervisor.drain(lambda: 600.0) is DrainState.DONE
    assert supervisor.state is ReplicaState.DRAINING
    assert seen == ["draining"]
    # Idle since 30.0, and for three seconds without a break.
    assert steps.now_s == 33.0


async def test_a_replica_that_was_never_ready_drains_at_once(
    supervisor: ReplicaSupervisor, engine: ScriptedEngine, steps: Steps
) -> None:
    engine.alive = True
    assert await supervisor.drain(lambda: 600.0) is DrainState.DONE
    assert steps.now_s == 0.0


async def test_drain_is_bounded(
    supervisor: ReplicaSupervisor, engine: ScriptedEngine, steps: Steps
) -> None:
    await supervisor.start(ready_timeout_s=10)
    engine.active_workflows = 1
    assert await supervisor.drain(lambda: 60.0) is DrainState.GIVEN_UP
    assert steps.now_s == 60.0


async def test_the_limit_can_be_lowered_during_a_drain(
    supervisor: ReplicaSupervisor, engine: ScriptedEngine, steps: Steps
) -> None:
    await supervisor.start(ready_timeout_s=10)
    engine.active_workflows = 1
    assert await supervisor.drain(lambda: 600.0 if steps.now_s < 5 else 7.0) is (
        DrainState.GIVEN_UP
    )
    assert steps.now_s == 7.0


async def test_drain_of_a_dead_engine_is_over(
    supervisor: ReplicaSupervisor, engine: ScriptedEngine, steps: Steps
) -> None:
    await supervisor.start(ready_timeout_s=10)
    engine.active_workflows = 1
    steps.script[2.0] = lambda: setattr(engine, "alive", False)
    assert await supervisor.drain(lambda: 600.0) is DrainState.DONE
    assert steps.now_s == 2.0


async def test_stop_removes_the_entry(
    supervisor: ReplicaSupervisor, engine: ScriptedEngine, redis_server: RedisServer
) -> None:
    await supervisor.start(ready_timeout_s=10)
    await supervisor.stop()
    assert not engine.alive
    assert not redis_server.client.exists(KEY)
