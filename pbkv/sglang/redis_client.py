"""A synchronous client of the Redis that a URL names, one server or Sentinels."""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError

from pbkv.redis_url import PlainAddress, redis_address
from pbkv.sentinel import Question, member_options, moved, no_master, sentinel_options


def redis_client(url: str, **options: Any) -> redis.Redis:
    """A client that connects at its first command. ``options`` are redis-py's, for connections.

    Of Sentinels it follows the master as :mod:`pbkv.sentinel` says, whatever ``retry`` says.
    Raises :class:`pbkv.errors.InvalidRedisUrl`.
    """
    address = redis_address(url)
    if isinstance(address, PlainAddress):
        return redis.Redis.from_url(address.url, **options)
    parsed: dict[str, Any] = dict(redis.connection.parse_url(address.member_url))
    members = {**member_options(parsed), **options, "retry": Retry(NoBackoff(), 0)}
    sentinel = _Sentinel(  # type: ignore[no-untyped-call]
        address.sentinels, sentinel_kwargs=sentinel_options(address, members), **members
    )
    client: _MasterClient = sentinel.master_for(  # type: ignore[no-untyped-call]
        address.master, redis_class=_MasterClient, connection_pool_class=_SentinelPool
    )
    client.asked = sentinel
    return client


class _Sentinel(redis.sentinel.Sentinel):
    def discover_master(self, service_name: str) -> Any:
        try:
            return super().discover_master(service_name)  # type: ignore[no-untyped-call]
        except MasterNotFoundError:
            raise MasterNotFoundError(no_master(service_name, len(self.sentinels))) from None


class _SentinelPool(redis.sentinel.SentinelConnectionPool):
    """Notices that the master is another before it hands out a connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._question = Question()

    def get_connection(self, *args: Any, **options: Any) -> Any:
        before = self.master_address
        if before is not None and self._question.due():
            try:
                self.get_master_address()  # type: ignore[no-untyped-call]
            except RedisConnectionError:
                self._question.failed()
            if line := moved(before, self.master_address):
                raise RedisConnectionError(line)
        return super().get_connection(*args, **options)


class _MasterClient(redis.Redis):
    """Closes the connections to the Sentinels too."""

    asked: redis.sentinel.Sentinel

    def close(self) -> None:
        super().close()
        self.asked.close()
