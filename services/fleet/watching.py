"""A list and a watch that together stay true: through time-outs, errors, and lost versions."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from services.fleet.errors import Expired, FleetError

logger = logging.getLogger(__name__)

_WATCH_S = 60.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class Source(Protocol):
    """What a mirror needs of :class:`services.fleet.cluster.Cluster`."""

    def get(self, path: str, **query: str) -> dict[str, Any]: ...
    def watch(self, path: str, *, version: str, timeout_s: float, **query: str) -> Any: ...


class Mirror:
    """The objects of one collection, by name, kept up to date by a thread.

    ``changed`` is called after every change, from that thread. After a failure it waits, longer
    each time; when the server no longer knows the version to continue from it reads all anew.
    """

    def __init__(
        self,
        source: Source,
        path: str,
        changed: Callable[[], None],
        *,
        selector: str = "",
        watch_s: float = _WATCH_S,
        first_pause_s: float = _FIRST_PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._path = path
        self._changed = changed
        self._query = {"labelSelector": selector} if selector else {}
        self._watch_s = watch_s
        self._first_pause_s = first_pause_s
        self._clock = clock
        self._lock = threading.Lock()
        self._items: dict[str, Mapping[str, Any]] = {}
        self._version = ""
        self._heard_at_s = clock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)
        self.complete = threading.Event()
        """Set once everything was read for the first time."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; a watch that is open is left at its next event or time-out."""
        self._stopping.set()

    def items(self) -> list[Mapping[str, Any]]:
        with self._lock:
            return list(self._items.values())

    def silent_s(self) -> float:
        """Seconds since the server was last heard; far above the length of a watch is a fault."""
        return self._clock() - self._heard_at_s

    def _run(self) -> None:
        pause_s = self._first_pause_s
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._read_all()
                self._follow()
                pause_s = self._first_pause_s
            except Expired:
                logger.info("%s: the version is no longer known, reading all anew", self._path)
                self._version = ""
                # A server that says so every time must not be asked without a pause.
                self._stopping.wait(self._first_pause_s)
            except FleetError as problem:
                logger.warning("%s: %s; again in %.1f s", self._path, problem, pause_s)
                self._stopping.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _read_all(self) -> None:
        listed = self._source.get(self._path, **self._query)
        with self._lock:
            self._items = {item["metadata"]["name"]: item for item in listed["items"]}
        self._version = listed["metadata"]["resourceVersion"]
        self._heard_at_s = self._clock()
        self.complete.set()
        self._changed()

    def _follow(self) -> None:
        events = self._source.watch(
            self._path, version=self._version, timeout_s=self._watch_s, **self._query
        )
        for event in events:
            item = event["object"]
            with self._lock:
                if event["type"] == "DELETED":
                    self._items.pop(item["metadata"]["name"], None)
                elif event["type"] in ("ADDED", "MODIFIED"):
                    self._items[item["metadata"]["name"]] = item
            self._version = item["metadata"]["resourceVersion"]
            self._heard_at_s = self._clock()
            if event["type"] != "BOOKMARK":
                self._changed()
            if self._stopping.is_set():
                return
        # The server ended the stream as it was asked to.
        self._heard_at_s = self._clock()
