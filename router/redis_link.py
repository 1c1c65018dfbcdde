"""The connection to Redis, and whether it is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from router.errors import RedisAway
from router.redis_client import async_redis_client
from router.settings import RouterSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

_AWAY = "redis is away"


class RedisLink:
    """Redis with a memory of being away.

    ``available`` turns False at the first failed command and True again only by :meth:`restored`,
    so that no request waits for a time-out while Redis is known to be away.
    """

    def __init__(self, client: Redis) -> None:
        self.client = client
        self.available = True
        self._running: set[asyncio.Task[Any]] = set()

    @classmethod
    def connect(cls, settings: RouterSettings) -> RedisLink:
        """A link that connects at its first command."""
        client = async_redis_client(
            settings.redis_url,
            max_connections=settings.redis_connections,
            pool_timeout_s=settings.redis_timeout_s,
            decode_responses=True,
            # Someone else's bytes in a shared Redis must not break a refresh.
            encoding_errors="replace",
            socket_timeout=settings.redis_timeout_s,
            socket_connect_timeout=settings.redis_timeout_s,
            # One retry at once heals a connection that Redis closed; more only makes clients wait.
            retry=Retry(NoBackoff(), 1),
        )
        return cls(client)

    async def ask(self, command: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``command``. Raises :class:`RedisAway`, at once when that is known already."""
        if not self.available:
            raise RedisAway(_AWAY)
        return await self.try_anyway(command)

    async def try_anyway(self, command: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``command`` even when Redis was away a moment ago. Raises :class:`RedisAway`.

        A command that was begun is finished, even if whoever asked is cancelled: a script must not
        take effect unheard. Also, under Python 3.11 ``asyncio.wait_for``, on which redis-py is
        built, sometimes swallows a cancellation, and then a client's leaving would go unnoticed.
        """
        running = asyncio.create_task(command())
        self._running.add(running)
        running.add_done_callback(self._finished)
        try:
            return await asyncio.shield(running)
        except (RedisError, OSError, TimeoutError) as problem:
            if self.available:
                self.available = False
                logger.warning(
                    "redis is away, serving from the last known state: %s: %s",
                    type(problem).__name__,
                    problem,
                )
            raise RedisAway(_AWAY) from None

    def restored(self) -> None:
        """Redis answers again and has been told what it missed."""
        if not self.available:
            self.available = True
            logger.warning("redis is back")

    async def close(self) -> None:
        """Close the connections, after the commands that still run."""
        await asyncio.gather(*self._running, return_exceptions=True)
        await self.client.aclose()

    def _finished(self, running: asyncio.Task[Any]) -> None:
        self._running.discard(running)
        if not running.cancelled():
            # Taken note of, so that an orphan's failure is not reported as never retrieved.
            running.exception()
