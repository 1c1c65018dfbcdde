"""Which workflows are active and which are retired, from events that may be lost, doubled or late.

The rules, for one workflow:

* a call makes it active, unless the call was issued before the terminate that retired it: such a
  late call leaves it retired (the retired state is the tombstone);
* a call issued after that terminate makes it active again;
* a terminate retires it, unless a call issued after the terminate is already known: a doubled or
  reordered terminate never retires a live workflow;
* silence for ``idle_timeout_s`` retires it: a crashed client sends no terminate.

Order of issue is ``seq``, never the order of arrival and never a clock of this process.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from pbkv.events import EventKind, WorkflowEvent
from pbkv.pace import WorkflowPace

HISTORY_CALLS = 64
"""How many of a workflow's last calls are remembered by agent."""


class WorkflowPhase(StrEnum):
    """The two states of a workflow that a cache policy tells apart."""

    ACTIVE = "active"
    RETIRED = "retired"


@dataclass(slots=True)
class Workflow:
    """What is known of one workflow.

    ``order`` counts workflows by first sight; ``history`` holds the agents of the last calls,
    the newest last.
    """

    workflow_id: str
    order: int
    started_at_s: float
    last_seen_s: float
    phase: WorkflowPhase
    last_seq: int
    calls: int = 0
    agent: str = ""
    history: deque[str] = field(default_factory=lambda: deque(maxlen=HISTORY_CALLS))

    @property
    def stamp(self) -> tuple[int, int]:
        """Changes with every call, and is never used again: what a forecast is made for."""
        return (self.order, self.calls)

    @property
    def active(self) -> bool:
        return self.phase is WorkflowPhase.ACTIVE


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of phase, or (``phase`` None) a workflow that is no longer remembered at all."""

    workflow_id: str
    phase: WorkflowPhase | None


class WorkflowListener(Protocol):
    """Hears what happens to workflows, after it is applied."""

    def on_call(self, workflow: Workflow) -> None:
        """An active workflow called the last agent of its history."""
        ...

    def on_retire(self, workflow: Workflow) -> None:
        """An active workflow retired."""
        ...


class WorkflowRegistry:
    """The active and the recently retired workflows of one engine.

    Memory is bounded: at most ``max_active`` active workflows (the longest silent one is retired
    beyond that) and ``max_retired`` retired ones (the longest retired is forgotten).
    Every method that can change a phase returns the transitions, in order.
    """

    def __init__(self, *, idle_timeout_s: float, max_active: int, max_retired: int) -> None:
        self._idle_timeout_s = idle_timeout_s
        self._max_active = max_active
        self._max_retired = max_retired
        self.listener: WorkflowListener | None = None
        self.pace = WorkflowPace()
        # Both in order of last activity, oldest first, so that expiry looks only at the front.
        self._active: OrderedDict[str, Workflow] = OrderedDict()
        self._retired: OrderedDict[str, Workflow] = OrderedDict()
        self._seen = 0

    def get(self, workflow_id: str) -> Workflow | None:
        return self._active.get(workflow_id) or self._retired.get(workflow_id)

    def is_active(self, workflow_id: str) -> bool:
        return workflow_id in self._active

    @property
    def num_active(self) -> int:
        return len(self._active)

    @property
    def num_retired(self) -> int:
        """Retired workflows still remembered."""
        return len(self._retired)

    def active_workflows(self) -> Iterator[Workflow]:
        """Active workflows, longest silent first."""
        return iter(self._active.values())

    def apply(self, event: WorkflowEvent) -> list[Transition]:
        """Apply one event by the rules in the module's docstring."""
        if event.kind is EventKind.TERMINATE:
            return self._terminate(event)
        return self._call(event)

    def expire(self, now_s: float, is_busy: Callable[[str], bool]) -> list[Transition]:
        """Retire workflows silent for longer than the idle time-out.

        ``is_busy`` says whether the engine still works on a call of that workflow: a long decode
        is not silence.
        """
        transitions: list[Transition] = []
        for workflow in list(self._active.values()):
            if now_s - workflow.last_seen_s <= self._idle_timeout_s:
                break
            if is_busy(workflow.workflow_id):
                self._touch(workflow, now_s)
            else:
                # How long the silence took says when it was noticed, not how long the work took.
                self.pace.ended(workflow.last_seen_s - workflow.started_at_s, workflow.calls)
                transitions += self._retire(workflow)
        return transitions

    def _call(self, event: WorkflowEvent) -> list[Transition]:
        known = self.get(event.workflow_id)
        if known is None:
            return self._add(event, WorkflowPhase.ACTIVE)
        seq = known.last_seq + 1 if event.seq is None else event.seq
        known.calls += event.kind is EventKind.INVOKE
        if known.active:
            known.last_seq = max(known.last_seq, seq)
            self._touch(known, event.at_s)
            self._called(known, event)
            return []
        if seq <= known.last_seq:
            return []
        known.last_seq = seq
        known.phase = WorkflowPhase.ACTIVE
        del self._retired[known.workflow_id]
        self._active[known.workflow_id] = known
        self._touch(known, event.at_s)
        self._called(known, event)
        return [Transition(known.workflow_id, WorkflowPhase.ACTIVE), *self._shrink()]

    def _terminate(self, event: WorkflowEvent) -> list[Transition]:
        known = self.get(event.workflow_id)
        if known is None:
            # The terminate outran the first call: remember it, so that the call stays retired.
            return self._add(event, WorkflowPhase.RETIRED)
        seq = known.last_seq if event.seq is None else event.seq
        if seq < known.last_seq:
            return []
        known.last_seq = seq
        if not known.active:
            return []
        self.pace.ended(event.at_s - known.started_at_s, known.calls)
        return self._retire(known)

    def _add(self, event: WorkflowEvent, phase: WorkflowPhase) -> list[Transition]:
        workflow = Workflow(
            workflow_id=event.workflow_id,
            order=self._seen,
            started_at_s=event.at_s,
            last_seen_s=event.at_s,
            phase=phase,
            last_seq=event.seq or 0,
            calls=int(event.kind is EventKind.INVOKE),
        )
        self._seen += 1
        pool = self._active if phase is WorkflowPhase.ACTIVE else self._retired
        pool[event.workflow_id] = workflow
        if phase is WorkflowPhase.ACTIVE:
            self._called(workflow, event)
        return [Transition(event.workflow_id, phase), *self._shrink()]

    def _called(self, workflow: Workflow, event: WorkflowEvent) -> None:
        workflow.agent = event.agent or workflow.agent
        if event.kind is EventKind.INVOKE:
            workflow.history.append(event.agent)
            self.pace.called(workflow.calls, event.at_s)
            if self.listener is not None:
                self.listener.on_call(workflow)

    def _touch(self, workflow: Workflow, now_s: float) -> None:
        workflow.last_seen_s = max(workflow.last_seen_s, now_s)
        self._active.move_to_end(workflow.workflow_id)

    def _retire(self, workflow: Workflow) -> list[Transition]:
        workflow.phase = WorkflowPhase.RETIRED
        del self._active[workflow.workflow_id]
        self._retired[workflow.workflow_id] = workflow
        if self.listener is not None:
            self.listener.on_retire(workflow)
        return [Transition(workflow.workflow_id, WorkflowPhase.RETIRED), *self._shrink()]

    def _shrink(self) -> list[Transition]:
        transitions: list[Transition] = []
        while len(self._active) > self._max_active:
            transitions += self._retire(next(iter(self._active.values())))
        while len(self._retired) > self._max_retired:
            workflow_id, _ = self._retired.popitem(last=False)
            transitions.append(Transition(workflow_id, None))
        return transitions
