"""The address of Redis: one server, or the Sentinels that know which server is the master.

One server is written as redis-py reads it: ``redis://``, ``rediss://`` (TLS) or ``unix://``.
Sentinels are written as::

    redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/MASTER[/DATABASE][?OPTIONS]

with ``rediss+sentinel`` for TLS to Sentinels and members alike. User and password are those of the
members; Sentinels that want some of their own have them in the options ``sentinel_username`` and
``sentinel_password``. Every other option is one of redis-py's, such as ``ssl_ca_certs``.

Passwords come out of Secrets and are put into a URL as they are. So the last ``@`` ends them,
whatever they hold; a ``%`` is still read as in every URL, and an ``@`` in an option is ``%40``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from pbkv.errors import InvalidRedisUrl

_PLAIN = ("redis", "rediss", "unix")
_SENTINEL = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
_SENTINEL_PORT = 26379
_USERNAME, _PASSWORD = "sentinel_username", "sentinel_password"


@dataclass(frozen=True, slots=True)
class PlainAddress:
    """One server. ``url`` is as redis-py reads it."""

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SentinelAddress:
    """A master that changes its place. ``member_url`` says everything about a connection to it
    but the host: scheme, credentials, database and options.
    """

    sentinels: tuple[tuple[str, int], ...]
    master: str
    member_url: str = field(repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)


RedisAddress = PlainAddress | SentinelAddress


def redis_address(url: str) -> RedisAddress:
    """Read ``url``. Raises :class:`InvalidRedisUrl` with one line that shows no password."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in (*_PLAIN, *_SENTINEL):
        known = ", ".join(f"{name}://" for name in (*_PLAIN, *_SENTINEL))
        raise InvalidRedisUrl(f"redis URL: it must start with one of {known}")
    if scheme == "unix":
        return PlainAddress(url)
    credentials, at, tail = rest.rpartition("@")
    place, question, query = tail.partition("?")
    before = _quoted(credentials) + at
    if scheme in _PLAIN:
        return PlainAddress(_checked(f"{scheme}://{before}{place}{question}{query}"))
    return _sentinel_address(_SENTINEL[scheme], before, place, query)


def _sentinel_address(scheme: str, before: str, place: str, query: str) -> SentinelAddress:
    hosts, _, path = place.partition("/")
    master, _, database = path.partition("/")
    if not master:
        raise InvalidRedisUrl(
            "redis URL: name the master that the Sentinels watch, as in"
            " redis+sentinel://host1:26379,host2:26379/mymaster/0"
        )
    if not (database or "0").isdecimal():
        raise InvalidRedisUrl(f"redis URL: the database is {database!r}; it must be a number")
    own: dict[str, str] = {}
    options = []
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        if name in (_USERNAME, _PASSWORD):
            own[name] = unquote(value)
        else:
            options.append(option)
    member = f"{scheme}://{before}MASTER/{database or 0}"
    return SentinelAddress(
        sentinels=tuple(_sentinel(host) for host in hosts.split(",")),
        master=unquote(master),
        member_url=f"{member}?{'&'.join(options)}" if options else member,
        sentinel_username=own.get(_USERNAME),
        sentinel_password=own.get(_PASSWORD),
    )


def _sentinel(place: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port == 0:
        raise InvalidRedisUrl(f"redis URL: {place!r} is no address of a Sentinel, host:port")
    return host, port or _SENTINEL_PORT


def _checked(url: str) -> str:
    try:
        # Read for its error alone: a malformed port is found only when it is asked for.
        _ = urlsplit(url).port
    except ValueError:
        raise InvalidRedisUrl("redis URL: host or port is malformed") from None
    return url


def _quoted(credentials: str) -> str:
    user, colon, password = credentials.partition(":")
    return quote(user, safe="%") + colon + quote(password, safe="%")
