"""What one router remembers of workflows: the state it serves from while Redis is away.

The rules are those of the scripts in ``lua/``, decided in this process alone. Workflows that are
not remembered are placed by rendezvous hashing, on which routers agree without talking.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pbkv.events import EventKind, WorkflowEvent
from router.pins import MAX_AGENTS, LocalPin, PinAnswer, PinRequest, WorkflowKey


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """An event that waits for Redis, and the replica whose stream it belongs to."""

    replica_id: str
    event: WorkflowEvent


class LocalPins:
    """Bounded memory: the least recently used workflow is forgotten, the oldest event dropped."""

    def __init__(self, *, max_pins: int, max_events: int) -> None:
        self._max_pins = max_pins
        self._max_events = max_events
        self._pins: OrderedDict[WorkflowKey, LocalPin] = OrderedDict()
        self._untold: dict[WorkflowKey, None] = {}
        self._events: deque[QueuedEvent] = deque()
        self.dropped_events = 0

    @property
    def num_queued(self) -> int:
        """Events that wait for Redis."""
        return len(self._events)

    def get(self, key: WorkflowKey) -> LocalPin | None:
        return self._pins.get(key)

    def of_tenant(self, tenant: str) -> list[tuple[WorkflowKey, LocalPin]]:
        """A tenant's workflows, in no order."""
        return [(key, pin) for key, pin in self._pins.items() if key.tenant == tenant]

    def remember(self, request: PinRequest, answer: PinAnswer, now_s: float) -> None:
        """Take note of what Redis decided."""
        pin = self._touch(request.key, now_s)
        if answer.seq > pin.seq:
            # Answers may overtake each other; only the latest says where the pin is.
            pin.seq = answer.seq
            pin.state = "active"
            self._settle(pin, request, answer.replica_id)
            pin.epoch = max(pin.epoch, answer.epoch)
        pin.step = max(pin.step, answer.step)

    def remember_end(self, key: WorkflowKey, seq: int) -> None:
        """Take note of an end that Redis decided."""
        pin = self._pins.get(key)
        if pin is not None and seq > pin.seq:
            pin.seq = seq
            pin.state = "retired"

    def pin(
        self,
        request: PinRequest,
        candidates: Sequence[str],
        serving: Collection[str],
        now_s: float,
    ) -> PinAnswer | None:
        """Decide without Redis. ``serving`` are replicas that may keep a pin."""
        known = self._pins.get(request.key)
        pinned = known.replicas.get(request.model, "") if known else ""
        moved_for = ""
        if pinned and pinned in serving and pinned not in request.down:
            replica_id = pinned
        elif candidates:
            replica_id = candidates[0]
            if pinned:
                moved_for = "replica_lost" if pinned in request.down else "replica_expired"
        else:
            return None
        pin = self._touch(request.key, now_s)
        pin.seq = max(pin.seq + 1, int(now_s * 1_000_000))
        pin.step += request.counts
        if replica_id != pinned:
            pin.epoch += 1
        revived = pin.state != "active"
        pin.state = "active"
        self._settle(pin, request, replica_id)
        self._untold[request.key] = None
        if pinned and replica_id != pinned:
            self._queue(EventKind.TERMINATE, request.key, pinned, pin, now_s)
        if replica_id != pinned or revived:
            self._queue(EventKind.START, request.key, replica_id, pin, now_s)
        return PinAnswer(
            replica_id=replica_id,
            url="",
            state="",
            model="",
            epoch=pin.epoch,
            step=pin.step,
            seq=pin.seq,
            pinned_now=replica_id != pinned,
            moved_for=moved_for,
        )

    def end(self, key: WorkflowKey, now_s: float, *, call_seq: int = 0) -> int | None:
        """Terminate without Redis; as :meth:`PinStore.end`."""
        pin = self._pins.get(key)
        if pin is None or pin.state == "retired" or (call_seq and pin.seq > call_seq):
            return None
        pin.seq = max(pin.seq + 1, int(now_s * 1_000_000))
        pin.state = "retired"
        pin.last_seen_s = now_s
        self._untold[key] = None
        for replica_id in sorted(set(pin.replicas.values())):
            self._queue(EventKind.TERMINATE, key, replica_id, pin, now_s)
        return pin.seq

    def next_event(self) -> QueuedEvent | None:
        """The oldest event that waits; it stays queued until :meth:`event_told`."""
        return self._events[0] if self._events else None

    def event_told(self, queued: QueuedEvent) -> None:
        """``queued`` is in Redis."""
        if self._events and self._events[0] is queued:
            self._events.popleft()

    def next_untold(self) -> tuple[WorkflowKey, LocalPin] | None:
        """A workflow that was decided on here and not yet told to Redis."""
        for key in self._untold:
            return key, self._pins[key]
        return None

    def pin_told(self, key: WorkflowKey, seq: int) -> None:
        """The decision of ``seq`` on ``key`` is in Redis."""
        pin = self._pins.get(key)
        if pin is None or pin.seq == seq:
            self._untold.pop(key, None)

    def _touch(self, key: WorkflowKey, now_s: float) -> LocalPin:
        pin = self._pins.get(key)
        if pin is None:
            pin = self._pins[key] = LocalPin(created_at_s=now_s)
            if len(self._pins) > self._max_pins:
                forgotten, _ = self._pins.popitem(last=False)
                self._untold.pop(forgotten, None)
        else:
            self._pins.move_to_end(key)
        pin.last_seen_s = now_s
        return pin

    def _settle(self, pin: LocalPin, request: PinRequest, replica_id: str) -> None:
        pin.replica = replica_id
        pin.replicas[request.model] = replica_id
        if request.counts:
            pin.agent = request.agent
            if request.agent not in pin.agents and len(pin.agents) < MAX_AGENTS:
                pin.agents.append(request.agent)

    def _queue(
        self, kind: EventKind, key: WorkflowKey, replica_id: str, pin: LocalPin, now_s: float
    ) -> None:
        if len(self._events) >= self._max_events:
            # A lost event costs memory in an engine until the idle time-out, nothing else.
            self._events.popleft()
            self.dropped_events += 1
        event = WorkflowEvent(kind, key.engine_id, now_s, pin.agent, pin.seq)
        self._events.append(QueuedEvent(replica_id, event))
