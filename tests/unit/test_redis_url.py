"""The address of Redis: what is read from it, and what is refused without showing a password."""

from __future__ import annotations

import pytest
import redis

from pbkv.errors import InvalidRedisUrl, SettingsError
from pbkv.redis_url import PlainAddress, SentinelAddress, redis_address
from pbkv.sglang.redis_client import redis_client
from router.redis_client import async_redis_client


@pytest.mark.parametrize(
    "url",
    ["redis://h:6379/0", "rediss://u:p@h/2?ssl_ca_certs=/ca", "unix:///tmp/redis.sock?db=1"],
)
def test_one_server_is_left_as_it_is(url: str) -> None:
    assert redis_address(url) == PlainAddress(url)


@pytest.mark.parametrize("password", ["a/b+c=", "a@b:c", "q?r#s", "plain"])
def test_a_password_may_hold_what_separates_the_parts(password: str) -> None:
    client = redis_client(f"redis://:{password}@h:1234/5")
    options = client.connection_pool.connection_kwargs
    assert options["password"] == password
    assert (options["host"], options["port"], options["db"]) == ("h", 1234, 5)


def test_an_escaped_password_is_read_as_in_every_url() -> None:
    client = redis_client("redis://:a%40b%2Fc@h/0")
    assert client.connection_pool.connection_kwargs["password"] == "a@b/c"


def test_sentinels() -> None:
    url = "redis+sentinel://u:p/w@h1,h2:26380,[::1]:7/my.master/3"
    address = redis_address(f"{url}?sentinel_username=s&sentinel_password=a%26b&socket_keepalive=1")
    assert address == SentinelAddress(
        sentinels=(("h1", 26379), ("h2", 26380), ("::1", 7)),
        master="my.master",
        member_url="redis://u:p%2Fw@MASTER/3?socket_keepalive=1",
        sentinel_username="s",
        sentinel_password="a&b",
    )
    assert redis_address("redis+sentinel://h/m") == SentinelAddress(
        (("h", 26379),), "m", "redis://MASTER/0"
    )


def test_a_client_of_sentinels_uses_tls_and_passwords_where_they_belong() -> None:
    url = "rediss+sentinel://u:member@h1,h2/m/3?sentinel_password=own&ssl_ca_certs=/ca"
    client = redis_client(url, socket_timeout=2.0)
    pool = client.connection_pool
    assert pool.connection_class is redis.sentinel.SentinelManagedSSLConnection
    assert pool.connection_kwargs["ssl_ca_certs"] == "/ca"
    assert (pool.connection_kwargs["username"], pool.connection_kwargs["password"]) == (
        "u",
        "member",
    )
    for sentinel in client.asked.sentinels:
        options = sentinel.connection_pool.connection_kwargs
        assert sentinel.connection_pool.connection_class is redis.SSLConnection
        assert options["ssl_ca_certs"] == "/ca"
        assert (options["username"], options["password"]) == (None, "own")
        assert options["socket_timeout"] == 2.0


async def test_a_client_of_sentinels_waits_for_a_free_connection() -> None:
    client = async_redis_client("redis+sentinel://h/m", max_connections=3, pool_timeout_s=0.5)
    pool = client.connection_pool
    assert isinstance(pool, redis.asyncio.BlockingConnectionPool)
    assert (pool.max_connections, pool.timeout) == (3, 0.5)
    await client.aclose()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "must start with one of redis://"),
        ("http://h", "must start with one of redis://"),
        ("redis-sentinel://h/m", "redis+sentinel://"),
        ("redis://:s3cret@h:port/0", "host or port is malformed"),
        ("redis://:s3cret@h:70000/0", "host or port is malformed"),
        ("redis+sentinel://:s3cret@h1,h2", "name the master"),
        ("redis+sentinel://:s3cret@h1,/m", "'' is no address of a Sentinel"),
        ("redis+sentinel://:s3cret@h1:x/m", "'h1:x' is no address of a Sentinel"),
        ("redis+sentinel://:s3cret@h1:0/m", "'h1:0' is no address of a Sentinel"),
        ("redis+sentinel://:s3cret@h1/m/first", "the database is 'first'; it must be a number"),
    ],
)
def test_what_cannot_be_read_is_one_line_without_the_password(url: str, why: str) -> None:
    with pytest.raises(InvalidRedisUrl) as refused:
        redis_client(url)
    assert why in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, SettingsError)
    assert isinstance(refused.value, ValueError)


def test_an_address_shows_no_password() -> None:
    for url in ("redis://:s3cret@h/0", "redis+sentinel://:s3cret@h/m?sentinel_password=s3cret"):
        assert "s3cret" not in repr(redis_address(url))
