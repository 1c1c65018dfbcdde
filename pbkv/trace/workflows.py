"""Whole workflows put together from the records of their calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pbkv.trace.call import TracedCall
from pbkv.trace.record import RecordKind


@dataclass(frozen=True)
class WorkflowTrace:
    """One workflow: its calls in order of issue.

    ``ended`` says that its end is known; without it the last calls may still be to come, so that
    nothing is to be learnt of what followed them.
    """

    workflow_id: str
    calls: tuple[TracedCall, ...]
    ended: bool

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The agents that were served, in order; a call that failed has no part in it."""
        return tuple(call.record.agent for call in self.served)

    @cached_property
    def served(self) -> tuple[TracedCall, ...]:
        """The calls that the engine answered."""
        return tuple(call for call in self.calls if not call.record.error)

    @property
    def started_at_s(self) -> float:
        return self.calls[0].record.sent_at_s

    @property
    def last_seen_s(self) -> float:
        return max(call.record.finished_at_s for call in self.calls)


def workflows_of(
    calls: Iterable[TracedCall], *, idle_timeout_s: float | None = None
) -> list[WorkflowTrace]:
    """The workflows in ``calls``, in order of their first call.

    Records may come in any order and more than once: of equal (tenant, workflow, seq) the first
    counts. A workflow that called again after its end is two. With ``idle_timeout_s`` a workflow
    also ended if it was silent for that long before the newest record of all.
    """
    by_workflow: dict[tuple[str, str], dict[int, TracedCall]] = {}
    newest_s = float("-inf")
    for call in calls:
        record = call.record
        newest_s = max(newest_s, record.finished_at_s)
        records = by_workflow.setdefault((record.tenant, record.workflow), {})
        records.setdefault(record.seq, call)
    silent_since_s = None if idle_timeout_s is None else newest_s - idle_timeout_s
    found = [
        workflow
        for records in by_workflow.values()
        for workflow in _split([records[seq] for seq in sorted(records)], silent_since_s)
    ]
    return sorted(found, key=lambda workflow: workflow.started_at_s)


def _split(records: Sequence[TracedCall], silent_since_s: float | None) -> list[WorkflowTrace]:
    """The lives of one workflow id, each up to its end."""
    lives: list[WorkflowTrace] = []
    calls: list[TracedCall] = []
    for traced in records:
        record = traced.record
        if record.kind is RecordKind.CALL:
            calls.append(traced)
        if calls and (record.end or record.kind is RecordKind.END):
            lives.append(WorkflowTrace(record.workflow_id, tuple(calls), ended=True))
            calls = []
    if calls:
        last = WorkflowTrace(calls[0].record.workflow_id, tuple(calls), ended=False)
        ended = silent_since_s is not None and last.last_seen_s <= silent_since_s
        lives.append(WorkflowTrace(last.workflow_id, last.calls, ended))
    return lives
