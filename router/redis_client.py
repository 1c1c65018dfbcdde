"""An asynchronous client of the Redis that a URL names, one server or Sentinels."""

from __future__ import annotations

from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

from pbkv.redis_url import PlainAddress, redis_address
from pbkv.sentinel import Question, member_options, moved, no_master, sentinel_options


def async_redis_client(
    url: str, *, max_connections: int = 100, pool_timeout_s: float = 20.0, **options: Any
) -> redis.asyncio.Redis:
    """A client that connects at its first command. ``options`` are redis-py's, for connections; a
    command waits ``pool_timeout_s`` for one of ``max_connections``.

    Of Sentinels it follows the master as :mod:`pbkv.sentinel` says, whatever ``retry`` says.
    Raises :class:`pbkv.errors.InvalidRedisUrl`.
    """
    address = redis_address(url)
    pool = {"max_connections": max_connections, "timeout": pool_timeout_s}
    if isinstance(address, PlainAddress):
        return redis.asyncio.Redis.from_pool(
            redis.asyncio.BlockingConnectionPool.from_url(address.url, **options, **pool)
        )
    parsed: dict[str, Any] = dict(redis.connection.parse_url(address.member_url))
    members = {**member_options(parsed), **options, "retry": Retry(NoBackoff(), 0)}
    sentinel = _Sentinel(  # type: ignore[no-untyped-call]
        address.sentinels, sentinel_kwargs=sentinel_options(address, members), **members
    )
    client: _MasterClient = sentinel.master_for(
        address.master,
        redis_class=_MasterClient,
        connection_pool_class=_SentinelPool,
        **pool,
    )
    client.asked = sentinel
    return client


class _Sentinel(redis.asyncio.Sentinel):
    async def discover_master(self, service_name: str) -> Any:
        try:
            return await super().discover_master(service_name)
        except MasterNotFoundError:
            raise MasterNotFoundError(no_master(service_name, len(self.sentinels))) from None


class _SentinelPool(redis.asyncio.SentinelConnectionPool, redis.asyncio.BlockingConnectionPool):
    """Notices that the master is another before it hands out a connection, and waits for a free
    one, as its second base does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._question = Question()

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        before = self.master_address
        if before is not None and self._question.due():
            try:
                await self.get_master_address()  # type: ignore[no-untyped-call]
            except RedisConnectionError:
                self._question.failed()
            if line := moved(before, self.master_address):
                raise RedisConnectionError(line)
        return await super().get_connection(*args, **options)  # type: ignore[no-untyped-call]


class _MasterClient(redis.asyncio.Redis):
    """Closes the connections to the Sentinels too."""

    asked: redis.asyncio.Sentinel

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        await self.asked.aclose()
