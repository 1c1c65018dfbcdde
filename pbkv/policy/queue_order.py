"""The order in which an engine admits waiting requests.

The oldest workflow goes first, so that workflows end and give their cache back. One with few calls
left is taken for older, since it ends soonest, and one whose prompt is cached too, so that the
cache is read before it is evicted. With D and N the duration and the number of calls of a usual
workflow (:mod:`pbkv.pace`), in seconds, the smallest first::

    rank = workflow start + D * (r * calls left / N - b * (cached / prompt) / (1 + reuse))

``b`` is what a prompt that is cached whole is worth and ``r`` what a whole workflow ahead costs,
both in usual workflows: an engine whose workflows take minutes and one whose workflows take seconds
need the same numbers. Reuse is the mean Score of the cached nodes, the number by which eviction
keeps them: what others will come back for waits without being lost, so it earns less. Calls left
come from a forecast that goes that far, else from the usual number of calls.

A workflow that has just begun would wait as long as older ones keep calling. So a request that has
waited for ``max_wait_s`` is overdue, and overdue requests go ahead of all others, first come, first
served. What that guarantees: from the first ordering at which a request is overdue, nothing that
arrived later is ahead of it. It is then admitted once all that arrived before it is, and once it
fits; when every request waits longer than the bound, the order is that of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pbkv.pace import Pace
from pbkv.settings import PolicySettings

QueueKey = tuple[int, float, int]
"""Orders waiting requests, smallest admitted first. Unique by its last part, the arrival number."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """What the order knows of one waiting request.

    Times are on one clock, the same on every rank. ``started_s`` is the start of the request's
    workflow, its own arrival if it has none. ``arrival`` counts requests as they come and decides
    ties. ``cached_tokens`` are those of the prompt that are on the device. ``reuse`` is the mean
    Score of these tokens' nodes, without this request's own claim to them. ``calls_made`` are the
    calls of the workflow before this one. ``calls_left`` is how many are expected from this one on,
    itself included, None if only the usual number can tell.
    """

    started_s: float
    arrived_s: float
    arrival: int
    prompt_tokens: int
    cached_tokens: int = 0
    reuse: float = 0.0
    calls_made: int = 0
    calls_left: float | None = None

    @property
    def cached_share(self) -> float:
        """Part of the prompt that is on the device, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """The weights of the order: ``b``, ``r`` and the bound of the module's docstring.

    With both weights 0 workflows go by their start alone.
    """

    cached_weight: float
    remaining_weight: float
    max_wait_s: float

    @classmethod
    def of(cls, settings: PolicySettings) -> QueueOrder:
        return cls(
            cached_weight=settings.queue_cached_weight,
            remaining_weight=settings.queue_remaining_weight,
            max_wait_s=settings.queue_max_wait_s,
        )

    def overdue(self, entry: QueueEntry, now_s: float) -> bool:
        """Whether the request has waited for as long as the bound allows."""
        return now_s - entry.arrived_s >= self.max_wait_s

    def key(self, entry: QueueEntry, now_s: float, usual: Pace) -> QueueKey:
        """Where the request stands at ``now_s``, where ``usual`` is what workflows usually are."""
        if self.overdue(entry, now_s):
            return (0, 0.0, entry.arrival)
        left = entry.calls_left
        if left is None:
            left = usual.calls_left(entry.calls_made)
        ahead = self.remaining_weight * left / usual.calls
        cached = self.cached_weight * entry.cached_share / (1.0 + entry.reuse)
        return (1, entry.started_s + usual.duration_s * (ahead - cached), entry.arrival)

    def keys(self, entries: Sequence[QueueEntry], now_s: float, usual: Pace) -> list[QueueKey]:
        """The keys of a whole queue."""
        return [self.key(entry, now_s, usual) for entry in entries]
