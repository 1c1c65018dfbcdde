"""Replicas in Redis, and the keys that ask them to drain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from redis.exceptions import RedisError

from pbkv.keys import REPLICAS_PATTERN, drain_key, replica_key
from pbkv.sglang.redis_client import redis_client
from services.fleet.errors import FleetError
from services.fleet.leaving import PlacedReplica

_TIMEOUT_S = 3.0
# Whoever asks repeats it; if all who ask are gone, replicas that still stand serve again.
REQUEST_TTL_S = 60
# Routers must not place one more workflow in the second until the replica's next heartbeat.
_ASK = """
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
if redis.call('HGET', KEYS[2], 'state') == 'ready' then
  redis.call('HSET', KEYS[2], 'state', 'draining')
end
"""


class RedisAway(FleetError):
    """Redis does not answer; nothing can be asked of a replica."""


class DrainRequests:
    """Every method raises :class:`RedisAway`."""

    def __init__(self, redis_url: str) -> None:
        # Untyped: redis-py's annotations cover both its synchronous and asynchronous clients.
        self._redis: Any = redis_client(
            redis_url,
            decode_responses=True,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
        )

    def replicas(self) -> list[PlacedReplica]:
        """All that are registered; an entry that says no address is left out."""
        prefix = replica_key("")
        found = []
        with _redis_errors():
            for key in self._redis.scan_iter(match=REPLICAS_PATTERN, count=1000):
                url, workflows = self._redis.hmget(key, "url", "workflows")
                address = urlsplit(url or "").hostname
                if address:
                    replica_id = key.removeprefix(prefix)
                    found.append(PlacedReplica(replica_id, address, int(workflows or 0)))
        return found

    def ask(self, replica_id: str, reason: str) -> None:
        """To be repeated within ``REQUEST_TTL_S`` for as long as it is meant."""
        with _redis_errors():
            keys = (drain_key(replica_id), replica_key(replica_id))
            self._redis.eval(_ASK, 2, *keys, reason, REQUEST_TTL_S)

    def withdraw(self, replica_id: str) -> None:
        """The replica's next heartbeat says ready again."""
        with _redis_errors():
            self._redis.delete(drain_key(replica_id))

    def asked(self) -> dict[str, str]:
        """Replica -> why it was asked."""
        prefix = drain_key("")
        with _redis_errors():
            keys = list(self._redis.scan_iter(match=f"{prefix}*", count=1000))
            reasons = self._redis.mget(keys) if keys else []
        return {
            key.removeprefix(prefix): reason
            for key, reason in zip(keys, reasons, strict=True)
            if reason
        }

    def close(self) -> None:
        self._redis.close()


@contextmanager
def _redis_errors() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as problem:
        raise RedisAway(f"redis: {' '.join(str(problem).split())[:200]}") from None
