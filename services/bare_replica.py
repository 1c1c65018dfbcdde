"""One replica in the foreground, without Ray: for bare metal and for tests."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from pathlib import Path

from services.engine import EngineExited, EngineProcess
from services.errors import ReplicaUnhealthy
from services.models import resolve_model
from services.ports import free_port
from services.settings import ReplicaSettings
from services.supervisor import ReplicaSupervisor

_HEALTH_EVERY_S = 1.0
_UNHEALTHY_LIMIT = 3


def run_replica(
    settings: ReplicaSettings, *, port: int | None, replica_id: str | None, now_s: float
) -> None:
    """Run until SIGTERM and a drain, or until the engine dies; from the main thread only.

    Raises :class:`EngineExited` when the engine died and
    :class:`services.errors.InvalidReplicaSettings` before anything is started.
    """
    chosen_id = replica_id or secrets.token_hex(4)
    chosen_port = port or free_port(settings.host)
    model_path = Path(resolve_model(settings.model, cache_dir=settings.model_cache_dir))
    options = settings.engine_options(model_path=model_path, replica_id=chosen_id, port=chosen_port)
    identity = settings.identity(replica_id=chosen_id, port=chosen_port, epoch=int(now_s * 1000))
    engine = EngineProcess(options)
    asyncio.run(_run(settings, engine, ReplicaSupervisor(engine, identity, settings.redis_url)))


async def _run(
    settings: ReplicaSettings, engine: EngineProcess, supervisor: ReplicaSupervisor
) -> None:
    asked_to_drain = asyncio.Event()
    asked_to_end = asyncio.Event()

    def on_term() -> None:
        (asked_to_end if asked_to_drain.is_set() else asked_to_drain).set()

    def on_interrupt() -> None:
        asked_to_drain.set()
        asked_to_end.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, on_term)
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        starting = asyncio.create_task(supervisor.start(settings.ready_timeout_s))
        await _first(starting, asked_to_drain)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        await starting
        print(f"ready: {engine.url}", flush=True)
        await _watch(supervisor, asked_to_drain)
        print("draining", flush=True)
        await supervisor.drain(lambda: 0.0 if asked_to_end.is_set() else settings.drain_limit_s)
    except ReplicaUnhealthy as problem:
        raise EngineExited(str(problem), ()) from None
    finally:
        await supervisor.stop()


async def _watch(supervisor: ReplicaSupervisor, end: asyncio.Event) -> None:
    """Look after the engine until ``end`` is set.

    Raises :class:`ReplicaUnhealthy` once it is dead, or does not answer several times in a row.
    """
    failures = 0
    while not end.is_set():
        try:
            await supervisor.check_health()
            failures = 0
        except ReplicaUnhealthy:
            failures += 1
            if failures >= _UNHEALTHY_LIMIT or not supervisor.engine_alive:
                raise
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(end.wait(), _HEALTH_EVERY_S)


async def _first(task: asyncio.Task[float], event: asyncio.Event) -> None:
    """Wait for the end of ``task`` or for ``event``."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
