"""Writes the hidden state of every traced request to a folder, for training.

The scheduler hands a state over and goes on; a thread of its own waits for the copy to arrive,
gathers states and writes shards. What comes faster than it can write is dropped and counted.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum

import numpy as np

from pbkv.predict.worker import HiddenState
from pbkv.trace.hidden import ShardFolder, StoredState

logger = logging.getLogger(__name__)

ROWS_PER_SHARD = 1_000
MAX_WAITING = 4_096
"""States that wait for the thread; each holds memory, on a GPU pinned host memory."""

MAX_ANNOUNCED = 16_384
"""Requests whose state is still awaited; beyond that the oldest get none."""


class TracedState(StrEnum):
    """What became of the hidden state of a traced request."""

    WRITTEN = "written"
    DROPPED = "dropped"
    """The thread did not keep up, or the folder could not be written."""
    ABSENT = "absent"
    """The engine ran the prompt in a way whose rows cannot be told apart."""


class HiddenTrace:
    """The thread and its queue. A shard is written ``flush_s`` after its first state came."""

    def __init__(
        self,
        folder: ShardFolder,
        *,
        flush_s: float,
        on_outcome: Callable[[TracedState, int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._flush_s = flush_s
        self._on_outcome = on_outcome
        self._clock = clock
        self._announced: OrderedDict[str, str] = OrderedDict()
        self._waiting: queue.Queue[tuple[str, str, HiddenState] | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="pbkv-hidden-trace", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, and wait for the thread."""
        self._waiting.put(None)
        self._thread.join()

    # ---- on the scheduler's thread ----

    def announce(self, request_id: str, workflow_id: str) -> None:
        """The hidden state of this request will come."""
        self._announced[request_id] = workflow_id
        while len(self._announced) > MAX_ANNOUNCED:
            self._announced.popitem(last=False)

    def awaits(self, request_id: str) -> bool:
        return request_id in self._announced

    def take_hidden_state(self, request_id: str, state: HiddenState | None) -> None:
        """The prompt of a request was prefilled; None if its state was not to be had."""
        workflow_id = self._announced.pop(request_id, None)
        if workflow_id is None:
            return
        if state is None:
            self._on_outcome(TracedState.ABSENT, 1)
            return
        try:
            self._waiting.put_nowait((request_id, workflow_id, state))
        except queue.Full:
            self._on_outcome(TracedState.DROPPED, 1)

    # ---- in the thread ----

    def _run(self) -> None:
        gathered: list[StoredState] = []
        flush_at_s = 0.0
        while True:
            try:
                timeout_s = max(0.0, flush_at_s - self._clock()) if gathered else None
                taken = self._waiting.get(timeout=timeout_s)
            except queue.Empty:
                self._flush(gathered)
                continue
            if taken is None:
                self._flush(gathered)
                return
            if not gathered:
                flush_at_s = self._clock() + self._flush_s
            gathered += self._read(*taken)
            if len(gathered) >= ROWS_PER_SHARD or self._clock() >= flush_at_s:
                self._flush(gathered)

    def _read(self, request_id: str, workflow_id: str, state: HiddenState) -> list[StoredState]:
        try:
            values = np.array(state.read(), dtype=np.float32)
        except Exception:
            logger.exception("pbkv: a hidden state could not be read")
            self._on_outcome(TracedState.DROPPED, 1)
            return []
        return [StoredState(request_id, workflow_id, values)]

    def _flush(self, gathered: list[StoredState]) -> None:
        if not gathered:
            return
        outcome = TracedState.WRITTEN
        try:
            self._folder.add(gathered)
        except Exception as problem:
            # A full disk, say: serving goes on without traces.
            logger.warning("pbkv: hidden states could not be written: %s", problem)
            outcome = TracedState.DROPPED
        self._on_outcome(outcome, len(gathered))
        gathered.clear()
