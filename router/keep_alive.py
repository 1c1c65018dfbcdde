"""Signs of life while a streamed answer has not begun.

A first call may wait minutes in an engine's queue, and proxies, load balancers and clients cut a
connection that carries nothing for that long. A comment line is something, and every parser of
server-sent events skips it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

COMMENT = b": keep-alive\n\n"


class KeepAlive:
    """Awaits ``beat`` every ``every_s`` seconds while the context is open; never if that is 0.

    A beat that was begun is finished before the context is left, so that nothing it sends can
    overtake, or be torn by, what follows. Without a beat the price is one timer.
    """

    def __init__(self, every_s: float, beat: Callable[[], Awaitable[None]]) -> None:
        self._every_s = every_s
        self._beat = beat
        self._timer: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._arm()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._every_s = 0
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            await self._beating

    def _arm(self) -> None:
        if self._every_s > 0:
            self._timer = asyncio.get_running_loop().call_later(self._every_s, self._fire)

    def _fire(self) -> None:
        self._beating = asyncio.get_running_loop().create_task(self._beat_once())

    async def _beat_once(self) -> None:
        await self._beat()
        self._arm()
