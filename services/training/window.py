"""The newest finished workflows of a running cluster, from its stream of records."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pbkv.trace import InvocationRecord, RecordKind, TracedCall, WorkflowTrace, workflows_of
from pbkv.trace.hidden import StoredState, read_states

SETTLE_S = 2.0
"""How long after its end a workflow is taken as whole: routers write in batches, each its own."""

MAX_OPEN = 100_000
"""Workflows that are followed at a time; beyond that the longest silent one is given up."""

_Key = tuple[str, str]


class TraceWindow:
    """At most ``max_workflows`` finished workflows, the newest; older ones are forgotten.

    A workflow finishes ``settle_s`` after its end, or by ``idle_timeout_s`` of silence; a record
    that comes after that or twice is dropped. Times are wall-clock seconds.
    """

    def __init__(
        self, max_workflows: int, *, idle_timeout_s: float, settle_s: float = SETTLE_S
    ) -> None:
        self._idle_timeout_s = idle_timeout_s
        self._settle_s = settle_s
        self._finished: deque[WorkflowTrace] = deque(maxlen=max_workflows)
        # In order of the last record, longest silent first.
        self._open: OrderedDict[_Key, dict[int, InvocationRecord]] = OrderedDict()
        self._closed: OrderedDict[_Key, int] = OrderedDict()
        self.total_finished = 0

    @property
    def finished(self) -> Sequence[WorkflowTrace]:
        """In order of their end."""
        return self._finished

    @property
    def num_open(self) -> int:
        return len(self._open)

    def add(self, records: Iterable[InvocationRecord]) -> None:
        """Take records in, in any order."""
        for record in records:
            key = (record.tenant, record.workflow)
            if record.seq <= self._closed.get(key, -1):
                continue
            self._open.setdefault(key, {}).setdefault(record.seq, record)
            self._open.move_to_end(key)
            if len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)

    def advance(self, now_s: float) -> int:
        """Move the workflows that are over by now into the window; how many."""
        over = [key for key, records in self._open.items() if self._is_over(records, now_s)]
        found: list[WorkflowTrace] = []
        for key in over:
            records = self._open.pop(key)
            self._closed[key] = max(records)
            # Silence ended the last of its lives, if nothing else did.
            lives = workflows_of(map(TracedCall, records.values()))
            found += [replace(life, ended=True) for life in lives if life.served]
        while len(self._closed) > MAX_OPEN:
            self._closed.popitem(last=False)
        self._finished.extend(sorted(found, key=lambda workflow: workflow.last_seen_s))
        self.total_finished += len(found)
        return len(found)

    def split(self, held_out: int) -> tuple[list[WorkflowTrace], list[WorkflowTrace]]:
        """(older ones to learn from, the newest ``held_out`` to be judged by)."""
        finished = list(self._finished)
        cut = max(0, len(finished) - held_out)
        return finished[:cut], finished[cut:]

    def _is_over(self, records: dict[int, InvocationRecord], now_s: float) -> bool:
        silent_s = now_s - max(record.finished_at_s for record in records.values())
        last = records[max(records)]
        if last.end or last.kind is RecordKind.END:
            return silent_s >= self._settle_s
        return silent_s >= self._idle_timeout_s


def with_hidden_states(workflows: Sequence[WorkflowTrace], folder: Path) -> list[WorkflowTrace]:
    """The same workflows, with the hidden states that replicas left in ``folder``.

    Raises :class:`pbkv.errors.InvalidTrace`.
    """
    wanted = {_request(call.record) for workflow in workflows for call in workflow.calls}
    found = {
        (state.request_id, state.workflow_id): state
        for state in read_states(folder)
        if (state.request_id, state.workflow_id) in wanted
    }
    return [
        replace(
            workflow,
            calls=tuple(
                _with_state(call.record, found.get(_request(call.record)))
                for call in workflow.calls
            ),
        )
        for workflow in workflows
    ]


def _with_state(record: InvocationRecord, state: StoredState | None) -> TracedCall:
    return (
        TracedCall(record)
        if state is None
        else TracedCall(record, state.hidden_state, state.source)
    )


def _request(record: InvocationRecord) -> tuple[str, str]:
    return record.request_id, record.workflow_id
