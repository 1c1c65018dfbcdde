"""One engine and its entry in Redis: started together, watched, drained and ended together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import aiohttp

from services.draining import Drain, DrainState
from services.engine import EngineError
from services.engine.metrics import EngineLoad, parse_load
from services.errors import ReplicaUnhealthy
from services.registration import HEARTBEAT_S, TTL_S, Registration, ReplicaIdentity, ReplicaState

logger = logging.getLogger(__name__)

HEALTH_TIMEOUT_S = 10.0
_LOAD_TIMEOUT_S = 2.0
# Longer than a heartbeat and a router's refresh of its directory together.
_SETTLE_S = TTL_S


class Engine(Protocol):
    """What a supervisor needs of :class:`services.engine.EngineProcess`."""

    @property
    def url(self) -> str: ...
    def start(self) -> None: ...
    def is_alive(self) -> bool: ...
    def wait_ready(self, timeout_s: float) -> float: ...
    def raise_if_dead(self) -> None: ...
    def stop(self, grace_s: float = ...) -> None: ...


class ReplicaSupervisor:
    """Runs on one event loop; what blocks is done in threads."""

    def __init__(
        self,
        engine: Engine,
        identity: ReplicaIdentity,
        redis_url: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.load = EngineLoad()
        self._engine = engine
        self._clock = clock
        self._sleep = sleep
        self._registration = Registration(identity, redis_url, self._load_unless_dead)
        self._http: aiohttp.ClientSession | None = None
        self._closing = asyncio.Event()
        self._poll: asyncio.Task[None] | None = None

    @property
    def state(self) -> ReplicaState:
        return self._registration.state

    @property
    def engine_alive(self) -> bool:
        return self._engine.is_alive()

    async def start(self, ready_timeout_s: float) -> float:
        """Start the engine and register it; the answer is the seconds until it served.

        Raises :class:`services.engine.EngineError` after it has cleaned up.
        """
        self._http = aiohttp.ClientSession()
        try:
            await asyncio.to_thread(self._engine.start)
            self._registration.start()
            took_s = await asyncio.to_thread(self._engine.wait_ready, ready_timeout_s)
        except BaseException:
            await self.stop(grace_s=0)
            raise
        # Routers place by free cache: the first ready entry must already say what there is.
        self.load = await self._read_load() or self.load
        self._poll = asyncio.get_running_loop().create_task(self._poll_forever())
        await self._registration.enter(ReplicaState.READY)
        return took_s

    async def check_health(self) -> None:
        """Raise :class:`ReplicaUnhealthy` when the engine is dead or does not answer in time."""
        try:
            self._engine.raise_if_dead()
        except EngineError as problem:
            await self._registration.beat()
            raise ReplicaUnhealthy(str(problem)) from None
        if await self._get("/health", HEALTH_TIMEOUT_S) is None:
            raise ReplicaUnhealthy(f"the engine did not answer within {HEALTH_TIMEOUT_S:g} s")

    async def drain(self, limit_s: Callable[[], float]) -> DrainState:
        """Tell routers to send no new workflow here and wait until those here are over.

        ``limit_s`` is asked at every look, so that the limit can change during a drain. A replica
        that was never ready has nothing to wait for.
        """
        if self.state is ReplicaState.STARTING:
            return DrainState.DONE
        await self._registration.enter(ReplicaState.DRAINING)
        drain = Drain(began_s=self._clock(), limit_s=limit_s(), settle_s=_SETTLE_S)
        while self._engine.is_alive():
            # An engine that does not answer counts as busy: its workflows are not known to be over.
            load = await self._read_load()
            drain.limit_s = limit_s()
            state = drain.look(self._clock(), busy=load is None or load.busy)
            if state is not DrainState.WAITING:
                return state
            await self._sleep(HEARTBEAT_S / 2)
        return DrainState.DONE

    async def stop(self, grace_s: float = 0.0) -> None:
        """End the engine, then its entry. Harmless when called again."""
        self._closing.set()
        if self._poll is not None:
            await self._poll
            self._poll = None
        await asyncio.to_thread(self._engine.stop, grace_s)
        await self._registration.close()
        if self._http is not None:
            await self._http.close()

    def _load_unless_dead(self) -> EngineLoad | None:
        return self.load if self._engine.is_alive() else None

    async def _poll_forever(self) -> None:
        while not self._closing.is_set():
            load = await self._read_load()
            if load is not None:
                self.load = load
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), HEARTBEAT_S)

    async def _read_load(self) -> EngineLoad | None:
        text = await self._get("/metrics", _LOAD_TIMEOUT_S)
        if text is None:
            return None
        try:
            return parse_load(text)
        except ValueError as problem:
            logger.warning("cannot read the engine's metrics: %s", problem)
            return None

    async def _get(self, path: str, timeout_s: float) -> str | None:
        """The body of a 200 answer, None for anything else."""
        if self._http is None:
            return None
        try:
            timeout = aiohttp.ClientTimeout(total=timeout_s)
            async with self._http.get(self._engine.url + path, timeout=timeout) as answer:
                return await answer.text() if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
