"""Faults that a test plans: the next matching requests go wrong."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a request goes wrong."""

    REFUSE = "refuse"
    """Answered with ``Fault.code``."""
    GONE = "gone"
    """A watch that says its version is too old, as an event of the stream."""
    HANG = "hang"
    """A watch that opens and never says anything."""
    CUT = "cut"
    """The connection is closed without an answer."""


@dataclass
class Fault:
    """``path`` is searched in path and query; ``times`` how many requests it hits."""

    kind: Kind
    path: str
    method: str = "GET"
    code: int = 500
    times: int = 1


class Faults:
    """The planned ones, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: list[Fault] = []

    def plan(self, fault: Fault) -> None:
        with self._lock:
            self._planned.append(fault)

    def next_for(self, method: str, target: str) -> Fault | None:
        """The fault that this request meets; used up by asking."""
        with self._lock:
            for fault in self._planned:
                if fault.times > 0 and fault.method == method and re.search(fault.path, target):
                    fault.times -= 1
                    return fault
        return None

    @property
    def left(self) -> int:
        """How many are still to come."""
        with self._lock:
            return sum(fault.times for fault in self._planned)
