"""Tells routers that a workflow is over, in a thread of its own: an application never waits."""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
from dataclasses import dataclass
from urllib.parse import quote

import httpx

_TIMEOUT_S = 5.0
_AT_EXIT_S = 3.0


@dataclass(frozen=True, slots=True)
class Router:
    """Where a workflow's calls went: the URL before ``/v1``, and the key that was used."""

    url: str
    authorization: str = ""


class _Ender:
    """One daemon thread, started with the first end; at exit it gets a moment to finish."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Router, str] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, router: Router, workflow_id: str) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="pbkv-end", daemon=True)
                self._thread.start()
                atexit.register(self.finish)
        self._waiting.put((router, workflow_id))

    def finish(self) -> None:
        """Send what waits, and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join(_AT_EXIT_S)

    def _work(self) -> None:
        with httpx.Client(timeout=_TIMEOUT_S) as client:
            while (end := self._waiting.get()) is not None:
                router, workflow_id = end
                headers = {"Authorization": router.authorization} if router.authorization else {}
                url = f"{router.url}/v1/workflows/{quote(workflow_id, safe='')}"
                # The router's idle time-out ends the workflow too: an end is worth one attempt.
                with contextlib.suppress(httpx.HTTPError):
                    client.delete(url, headers=headers)


_ender = _Ender()


def signal_end(router: Router, workflow_id: str) -> None:
    """``DELETE /v1/workflows/{id}``, soon."""
    _ender.put(router, workflow_id)


def finish() -> None:
    """Wait until all ends that were signalled are sent, or a moment has passed."""
    _ender.finish()
