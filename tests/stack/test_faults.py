"""kill -9 of each part of the stack, one after the other, in one running stack."""

from __future__ import annotations

import httpx
import psutil

from tests.stack.running import RunningStack
from tests.waiting import wait_until

RESTART_TIMEOUT_S = 300.0


def test_router_is_started_again_and_knows_the_pins(stack: RunningStack) -> None:
    port = str(stack.ports[0])
    pinned = stack.chat("over-router", "Hello").headers["X-PBKV-Replica"]
    router = stack.process_with("router", "--port", port)
    router.kill()
    # The other one serves meanwhile, with the same pin.
    other = stack.chat("over-router", "Hello", router=1)
    assert other.headers["X-PBKV-Replica"] == pinned

    def back() -> bool:
        try:
            return httpx.get(f"{stack.urls[0]}/ready", timeout=5.0).status_code == 200
        except httpx.TransportError:
            return False

    wait_until(lambda: not router.is_running() and back())
    assert stack.chat("over-router", "Hello").headers["X-PBKV-Replica"] == pinned
    assert f"router on port {port} ended with status 137; starting it again" in stack.lines


def test_redis_comes_back_with_the_pins_and_requests_go_on_meanwhile(stack: RunningStack) -> None:
    pinned = stack.chat("over-redis", "Hello").headers["X-PBKV-Replica"]
    replicas = stack.ready_replicas()
    with stack.redis as client:
        # The file that pins are restored from is synced once a second.
        client.config_set("appendfsync", "always")
        client.set("fence", "1")
        server = client.info("server")["process_id"]
        psutil.Process(server).kill()
        assert stack.chat("over-redis", "Hello").headers["X-PBKV-Replica"] == pinned

        def restarted() -> bool:
            try:
                return bool(client.info("server")["process_id"] != server)
            except OSError:
                return False
            except Exception as problem:
                assert "redis" in type(problem).__module__
                return False

        wait_until(restarted)
        wait_until(lambda: len(client.keys("pbkv:replica:*")) == 2)
        assert client.get("fence") == "1"
        assert client.hget("pbkv:workflow:default:over-redis", "replica") == pinned
    wait_until(lambda: stack.ready_replicas() == replicas)
    assert stack.chat("over-redis", "Hello").headers["X-PBKV-Replica"] == pinned


def test_a_killed_engine_is_replaced_and_its_workflows_move(stack: RunningStack) -> None:
    before = stack.ready_replicas()
    victim = stack.chat("over-engine", "Hello").headers["X-PBKV-Replica"]
    engine = stack.engine_processes(victim)
    engine[0].kill()
    moved = stack.chat("over-engine", "Hello")
    assert moved.status_code == 200
    assert moved.headers["X-PBKV-Replica"] in before - {victim}
    wait_until(lambda: not any(process.is_running() for process in engine))
    wait_until(lambda: victim not in stack.ready_replicas())
    wait_until(lambda: len(stack.ready_replicas()) == 2, RESTART_TIMEOUT_S)


def test_a_killed_replica_leaves_no_engine_and_is_replaced(stack: RunningStack) -> None:
    victim = stack.chat("over-actor", "Hello").headers["X-PBKV-Replica"]
    engine = stack.engine_processes(victim)
    assert len(engine) >= 3
    stack.replica_actor(victim).kill()
    wait_until(lambda: not any(process.is_running() for process in engine))
    moved = stack.chat("over-actor", "Hello")
    assert moved.status_code == 200
    assert moved.headers["X-PBKV-Replica"] != victim
    # Serve starts another; that one is on its way when the next test stops the stack.
    with stack.redis as client:
        wait_until(
            lambda: any(
                client.hget(key, "state") == "starting"
                for key in client.scan_iter("pbkv:replica:*")
            )
        )
