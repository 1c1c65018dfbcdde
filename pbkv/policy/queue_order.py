"""The order in which an engine admits waiting requests.

The oldest workflow goes first, so that workflows end and give their cache back; a request whose
prompt is cached is moved ahead, so that the cache is read before it is evicted. In seconds, the
smallest first::

    rank = workflow start + c * remaining calls - b * (cached / prompt) / (1 + reuse)

``b`` is what a prompt that is cached whole is worth, ``c`` what every further call of the workflow
costs. Reuse is the mean Score of the cached nodes, the number by which eviction keeps them: what
others will come back for waits without being lost, so it earns less. Without forecasts reuse is 0
and remaining calls are unknown, and the rank is age and cache alone.

A workflow that has just begun would wait as long as older ones keep calling. So a request that has
waited for ``max_wait_s`` is overdue, and overdue requests go ahead of all others, first come, first
served. What that guarantees: from the first ordering at which a request is overdue, nothing that
arrived later is ahead of it. It is then admitted once all that arrived before it is, and once it
fits; when every request waits longer than the bound, the order is that of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pbkv.settings import PolicySettings

QueueKey = tuple[int, float, int]
"""Orders waiting requests, smallest admitted first. Unique by its last part, the arrival number."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """What the order knows of one waiting request.

    Times are on one clock, the same on every rank. ``started_s`` is the start of the request's
    workflow, its own arrival if it has none. ``arrival`` counts requests as they come and decides
    ties. ``cached_tokens`` are those of the prompt that are on the device. ``reuse`` is the mean
    Score of these tokens' nodes, without this request's own claim to them.
    ``remaining_calls`` is how many calls of the workflow are expected to follow, None if unknown.
    """

    started_s: float
    arrived_s: float
    arrival: int
    prompt_tokens: int
    cached_tokens: int = 0
    reuse: float = 0.0
    remaining_calls: float | None = None

    @property
    def cached_share(self) -> float:
        """Part of the prompt that is on the device, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """The weights of the order: ``b``, ``c`` and the bound of the module's docstring, in seconds.

    With ``b`` and ``c`` 0 workflows go by their start alone.
    """

    cached_bonus_s: float
    remaining_call_s: float
    max_wait_s: float

    @classmethod
    def of(cls, settings: PolicySettings) -> QueueOrder:
        return cls(
            cached_bonus_s=settings.queue_cached_bonus_s,
            remaining_call_s=settings.queue_remaining_call_s,
            max_wait_s=settings.queue_max_wait_s,
        )

    def overdue(self, entry: QueueEntry, now_s: float) -> bool:
        """Whether the request has waited for as long as the bound allows."""
        return now_s - entry.arrived_s >= self.max_wait_s

    def key(self, entry: QueueEntry, now_s: float, usual_remaining: float = 0.0) -> QueueKey:
        """Where the request stands at ``now_s``. ``usual_remaining`` stands in for an unknown
        number of remaining calls."""
        if self.overdue(entry, now_s):
            return (0, 0.0, entry.arrival)
        remaining = entry.remaining_calls
        rank_s = (
            entry.started_s
            + self.remaining_call_s * (usual_remaining if remaining is None else remaining)
            - self.cached_bonus_s * entry.cached_share / (1.0 + entry.reuse)
        )
        return (1, rank_s, entry.arrival)

    def keys(self, entries: Sequence[QueueEntry], now_s: float) -> list[QueueKey]:
        """The keys of a whole queue. A workflow without a forecast counts as the mean of those
        with one, so that a forecast that is late neither helps nor harms."""
        usual = usual_remaining(entries)
        return [self.key(entry, now_s, usual) for entry in entries]


def usual_remaining(entries: Iterable[QueueEntry]) -> float:
    """Mean of the known numbers of remaining calls, 0 if none is known."""
    known = [entry.remaining_calls for entry in entries if entry.remaining_calls is not None]
    return sum(known) / len(known) if known else 0.0
