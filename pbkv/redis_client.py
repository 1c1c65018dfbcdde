"""Clients of the Redis that a URL names; the only file of the core that imports redis-py.

A client of Sentinels asks them for the master whenever it opens a connection, and every second
while it is used: after a failover the old master, if it is well, takes writes for ten seconds more
before it becomes a replica and loses them. A client that finds another master closes its
connections and fails one command with a ``ConnectionError``, so that whoever reads a stream knows
that it is another one.

It repeats no command by itself, whatever ``retry`` says: redis-py would do so at the address that
it had, without asking again. The connection of a command that failed is closed, so the next command
finds the new master.
"""

from __future__ import annotations

import time
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError

from pbkv.redis_url import PlainAddress, SentinelAddress, redis_address

_ASK_EVERY_S = 1.0
_ASK_AGAIN_S = 10.0


def redis_client(url: str, **options: Any) -> redis.Redis:
    """A client that connects at its first command. ``options`` are redis-py's, for connections.

    Raises :class:`pbkv.errors.InvalidRedisUrl`.
    """
    address = redis_address(url)
    if isinstance(address, PlainAddress):
        return redis.Redis.from_url(address.url, **options)
    members = {**_member_options(address), **options, "retry": Retry(NoBackoff(), 0)}
    sentinel = _Sentinel(  # type: ignore[no-untyped-call]
        address.sentinels, sentinel_kwargs=_sentinel_options(address, members), **members
    )
    client: _MasterClient = sentinel.master_for(  # type: ignore[no-untyped-call]
        address.master, redis_class=_MasterClient, connection_pool_class=_SentinelPool
    )
    client.asked = sentinel
    return client


def async_redis_client(
    url: str, *, max_connections: int = 100, pool_timeout_s: float = 20.0, **options: Any
) -> redis.asyncio.Redis:
    """The same for asyncio. A command waits ``pool_timeout_s`` for one of ``max_connections``."""
    address = redis_address(url)
    pool = {"max_connections": max_connections, "timeout": pool_timeout_s}
    if isinstance(address, PlainAddress):
        return redis.asyncio.Redis.from_pool(
            redis.asyncio.BlockingConnectionPool.from_url(address.url, **options, **pool)
        )
    members = {**_member_options(address), **options, "retry": AsyncRetry(NoBackoff(), 0)}
    sentinel = _AsyncSentinel(  # type: ignore[no-untyped-call]
        address.sentinels, sentinel_kwargs=_sentinel_options(address, members), **members
    )
    client: _AsyncMasterClient = sentinel.master_for(
        address.master,
        redis_class=_AsyncMasterClient,
        connection_pool_class=_AsyncSentinelPool,
        **pool,
    )
    client.asked = sentinel
    return client


class _Sentinel(redis.sentinel.Sentinel):
    """Says in a line that there is no master; redis-py's own lists its objects."""

    def discover_master(self, service_name: str) -> Any:
        try:
            return super().discover_master(service_name)  # type: ignore[no-untyped-call]
        except MasterNotFoundError:
            raise _no_master(service_name, len(self.sentinels)) from None


class _AsyncSentinel(redis.asyncio.Sentinel):
    """The same."""

    async def discover_master(self, service_name: str) -> Any:
        try:
            return await super().discover_master(service_name)
        except redis.asyncio.sentinel.MasterNotFoundError:
            raise _no_master(service_name, len(self.sentinels)) from None


def _no_master(name: str, asked: int) -> MasterNotFoundError:
    return MasterNotFoundError(f"none of {asked} Sentinels names a master {name!r} that is up")


class _Question:
    """When the Sentinels are to be asked again."""

    def __init__(self) -> None:
        self._due_at_s = 0.0

    def due(self) -> bool:
        """Whether it is time; whoever hears yes is the one who asks."""
        now_s = time.monotonic()
        if now_s < self._due_at_s:
            return False
        self._due_at_s = now_s + _ASK_EVERY_S
        return True

    def failed(self) -> None:
        """No Sentinel answers: commands to a master that does must not wait for that every time."""
        self._due_at_s = time.monotonic() + _ASK_AGAIN_S


class _SentinelPool(redis.sentinel.SentinelConnectionPool):
    """Notices that the master is another before it hands out a connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._question = _Question()

    def get_connection(self, *args: Any, **options: Any) -> Any:
        before = self.master_address
        if before is not None and self._question.due():
            try:
                self.get_master_address()  # type: ignore[no-untyped-call]
            except RedisConnectionError:
                self._question.failed()
            _raise_if_moved(before, self.master_address)
        return super().get_connection(*args, **options)


class _AsyncSentinelPool(
    redis.asyncio.SentinelConnectionPool, redis.asyncio.BlockingConnectionPool
):
    """The same; it also waits for a free connection, as its second base does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._question = _Question()

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        before = self.master_address
        if before is not None and self._question.due():
            try:
                await self.get_master_address()  # type: ignore[no-untyped-call]
            except RedisConnectionError:
                self._question.failed()
            _raise_if_moved(before, self.master_address)
        return await super().get_connection(*args, **options)  # type: ignore[no-untyped-call]


def _raise_if_moved(before: tuple[str, int], now: tuple[str, int] | None) -> None:
    if now is not None and before != now:
        raise RedisConnectionError(f"the master moved to {now[0]}:{now[1]}")


class _MasterClient(redis.Redis):
    """Closes the connections to the Sentinels too."""

    asked: redis.sentinel.Sentinel

    def close(self) -> None:
        super().close()
        self.asked.close()


class _AsyncMasterClient(redis.asyncio.Redis):
    """Closes the connections to the Sentinels too."""

    asked: redis.asyncio.Sentinel

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        await self.asked.aclose()


def _member_options(address: SentinelAddress) -> dict[str, Any]:
    """What redis-py reads from the URL, without the host that is not known yet."""
    options: dict[str, Any] = dict(redis.connection.parse_url(address.member_url))
    del options["host"]
    if options.pop("connection_class", None) is not None:
        options["ssl"] = True
    return options


def _sentinel_options(address: SentinelAddress, members: dict[str, Any]) -> dict[str, Any]:
    """Time-outs and TLS as for the members, credentials of their own."""
    names = ("socket_", "ssl", "retry")
    shared = {name: value for name, value in members.items() if name.startswith(names)}
    return {
        **shared,
        "username": address.sentinel_username,
        "password": address.sentinel_password,
    }
