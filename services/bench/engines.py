"""Engines of a benchmark: started together, all up at once, ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager

import aiohttp

from services.bench.drive import BenchError
from services.engine import EngineOptions, EngineProcess

PAGE_SIZE = 16
EXTRA_ARGS = ("--skip-server-warmup", "--stream-interval", "8")

_READY_TIMEOUT_S = 300.0
_STARTING_AT_ONCE = 3
"""A start is mostly imports: more at once than that only makes each slower."""


@asynccontextmanager
async def running_engines(options: Sequence[EngineOptions]) -> AsyncIterator[list[EngineProcess]]:
    """One engine per element of ``options``, ready. Raises an engine's error."""
    with ExitStack() as stack:
        engines: list[EngineProcess] = []
        for first in range(0, len(options), _STARTING_AT_ONCE):
            for each in options[first : first + _STARTING_AT_ONCE]:
                engine = EngineProcess(each)
                stack.callback(engine.stop, grace_s=0.0)
                engine.start()
                engines.append(engine)
            for engine in engines[first:]:
                await asyncio.to_thread(engine.wait_ready, _READY_TIMEOUT_S)
        yield engines


async def flush(url: str) -> None:
    """Empty the cache of the engine at ``url``. Raises :class:`BenchError`."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/flush_cache", params={"timeout": 30}) as answer,
    ):
        if answer.status != 200:
            raise BenchError(f"flush_cache answered {answer.status}")


def whole_pages(num_tokens: float) -> int:
    """``num_tokens`` in tokens of whole pages, at least one page."""
    return max(1, round(num_tokens / PAGE_SIZE)) * PAGE_SIZE
