"""What clients of Redis Sentinel have in common, be they synchronous or not; without redis-py.

A client of Sentinels asks them for the master whenever it opens a connection, and every second
while it is used: after a failover the old master, if it is well, takes writes for ten seconds more
before it becomes a replica and loses them. A client that finds another master closes its
connections and fails one command with a ``ConnectionError``, so that whoever reads a stream knows
that it is another one.

It repeats no command by itself: redis-py would do so at the address that it had, without asking
again. The connection of a command that failed is closed, so the next command finds the new master.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pbkv.redis_url import SentinelAddress

_ASK_EVERY_S = 1.0
_ASK_AGAIN_S = 10.0


class Question:
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


def no_master(name: str, asked: int) -> str:
    """One line; redis-py's own lists its objects."""
    return f"none of {asked} Sentinels names a master {name!r} that is up"


def moved(before: tuple[str, int], now: tuple[str, int] | None) -> str:
    """One line if the master is another than ``before``, else nothing."""
    return "" if now is None or before == now else f"the master moved to {now[0]}:{now[1]}"


def member_options(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """What redis-py reads from the URL of a member, without the host that is not known yet."""
    options = {name: value for name, value in parsed.items() if name != "host"}
    if options.pop("connection_class", None) is not None:
        options["ssl"] = True
    return options


def sentinel_options(address: SentinelAddress, members: Mapping[str, Any]) -> dict[str, Any]:
    """Options of connections to the Sentinels: time-outs and TLS as for the members, credentials of
    their own."""
    names = ("socket_", "ssl", "retry")
    shared = {name: value for name, value in members.items() if name.startswith(names)}
    return {
        **shared,
        "username": address.sentinel_username,
        "password": address.sentinel_password,
    }
