"""Reads a replica's Redis stream of lifecycle events in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from redis.exceptions import RedisError

from pbkv.errors import InvalidEvent
from pbkv.events import WorkflowEvent
from pbkv.keys import events_key
from pbkv.sglang.redis_client import redis_client

logger = logging.getLogger(__name__)

_BLOCK_S = 1.0
_BATCH = 500
_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 2.0


class EventStream:
    """Events of one replica, in the order of the stream, from its start.

    After a lost connection the stream is read from its start again: Redis may have come back
    without its data, or on a host whose clock numbers new entries below old ones. Reading an event
    twice is harmless, the workflow registry orders events by ``seq``.
    """

    def __init__(self, redis_url: str, replica_id: str, on_malformed: Callable[[], None]) -> None:
        self._key = events_key(replica_id)
        self._on_malformed = on_malformed
        self._client = redis_client(
            redis_url,
            decode_responses=True,
            encoding_errors="replace",
            socket_connect_timeout=2.0,
            socket_timeout=_BLOCK_S + 2.0,
        )
        self._events: deque[WorkflowEvent] = deque()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pbkv-events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop reading and wait for the thread."""
        self._stopped.set()
        self._client.close()
        self._thread.join(timeout=_BLOCK_S + 3.0)

    def drain(self) -> list[WorkflowEvent]:
        """All events read since the last call. Never blocks."""
        events: list[WorkflowEvent] = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def _run(self) -> None:
        last_id = "0-0"
        retry_s = _FIRST_RETRY_S
        while not self._stopped.is_set():
            try:
                last_id = self._read_after(last_id)
            # ValueError: stop() closed the connection while the client read from it.
            except (RedisError, OSError, ValueError) as problem:
                if self._stopped.is_set():
                    return
                if retry_s == _FIRST_RETRY_S:
                    logger.warning("pbkv: event stream lost, retrying: %s", problem)
                last_id = "0-0"
                self._stopped.wait(retry_s)
                retry_s = min(2 * retry_s, _LONGEST_RETRY_S)
                continue
            if retry_s != _FIRST_RETRY_S:
                logger.warning("pbkv: event stream is back")
                retry_s = _FIRST_RETRY_S

    def _read_after(self, last_id: str) -> str:
        answer = self._client.xread({self._key: last_id}, count=_BATCH, block=int(_BLOCK_S * 1000))
        for _, entries in answer or ():
            for entry_id, fields in entries:
                last_id = entry_id
                try:
                    self._events.append(WorkflowEvent.from_fields(fields))
                except InvalidEvent as problem:
                    # One bad entry must not stop the ones after it.
                    self._on_malformed()
                    logger.warning("pbkv: skipped event %s: %s", entry_id, problem)
        return last_id
