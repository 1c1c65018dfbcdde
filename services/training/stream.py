"""Reads the Redis stream of traces that routers write."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from redis.exceptions import RedisError

from pbkv.errors import InvalidTrace
from pbkv.keys import TRACES_KEY
from pbkv.sglang.redis_client import redis_client
from pbkv.trace.record import InvocationRecord
from pbkv.trace.wire import from_fields
from services.training.errors import StreamAway

logger = logging.getLogger(__name__)

PAGE = 1_000
_TIMEOUT_S = 5.0


class TraceStream:
    """The stream, read from its start. ``malformed`` counts entries that are no records."""

    def __init__(self, redis_url: str) -> None:
        try:
            self._client = redis_client(
                redis_url,
                decode_responses=True,
                encoding_errors="replace",
                socket_connect_timeout=_TIMEOUT_S,
                socket_timeout=2 * _TIMEOUT_S,
            )
        except ValueError as problem:
            raise StreamAway(str(problem)) from None
        self.malformed = 0
        self._last_id = "0-0"

    def read_all(self) -> Iterator[InvocationRecord]:
        """All records there are, oldest first, a page at a time. Raises :class:`StreamAway`."""
        while page := self.read_new(0.0):
            yield from page

    def read_new(self, wait_s: float) -> list[InvocationRecord]:
        """Records after those read before, up to a page; waits so long for the first of them.

        An empty list means that nothing came. Raises :class:`StreamAway`; then the next read goes
        on where the last one ended.
        """
        while True:
            entries = self._entries(wait_s)
            if not entries:
                return []
            records = list(self._records(entries))
            if records:
                return records

    def rewind(self) -> None:
        """Read from the start again, for a Redis that came back without its data."""
        self._last_id = "0-0"

    def close(self) -> None:
        self._client.close()

    def _entries(self, wait_s: float) -> list[tuple[str, dict[str, str]]]:
        # BLOCK 0 would wait for ever.
        block_ms = None if wait_s <= 0 else max(1, int(min(wait_s, _TIMEOUT_S) * 1000))
        try:
            answer: Any = self._client.xread({TRACES_KEY: self._last_id}, PAGE, block_ms)
        except (RedisError, OSError) as problem:
            raise StreamAway(f"redis does not answer: {_one_line(problem)}") from None
        if not answer:
            return []
        entries: list[tuple[str, dict[str, str]]] = answer[0][1]
        return entries

    def _records(self, entries: list[tuple[str, dict[str, str]]]) -> Iterator[InvocationRecord]:
        for entry_id, fields in entries:
            self._last_id = entry_id
            try:
                yield from_fields(fields)
            except InvalidTrace as problem:
                # One bad entry must not hide the ones after it.
                self.malformed += 1
                logger.warning("skipped entry %s of the traces: %s", entry_id, problem)


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:200] or type(problem).__name__
