"""From the calls of a foreign log to records: numbered by workflow, with the ends it knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pbkv.trace.record import InvocationRecord, RecordKind


@dataclass(frozen=True, slots=True)
class ForeignCall:
    """One model call as a log of another system tells it. Times are seconds since 1970."""

    workflow: str
    agent: str
    sent_at_s: float
    finished_at_s: float
    application: str = ""
    request_id: str = ""
    model: str = ""
    first_token_at_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str = ""
    error: str = ""


def records_of(
    calls: Iterable[ForeignCall], ends: Mapping[str, float], *, tenant: str = ""
) -> list[InvocationRecord]:
    """Records in order of time. ``ends`` maps a workflow to when it ended.

    Within a workflow ``seq`` and ``step`` count from 1 in the order in which calls were sent.
    """
    counts: dict[str, int] = {}
    records: list[InvocationRecord] = []
    last: dict[str, InvocationRecord] = {}
    for call in sorted(calls, key=lambda call: call.sent_at_s):
        counts[call.workflow] = number = counts.get(call.workflow, 0) + 1
        record = last[call.workflow] = InvocationRecord(
            kind=RecordKind.CALL,
            tenant=tenant,
            workflow=call.workflow,
            seq=number,
            step=number,
            agent=call.agent,
            application=call.application,
            sent_at_s=call.sent_at_s,
            finished_at_s=call.finished_at_s,
            request_id=call.request_id,
            model=call.model,
            first_token_at_s=call.first_token_at_s,
            prompt_tokens=call.prompt_tokens,
            cached_tokens=call.cached_tokens,
            completion_tokens=call.completion_tokens,
            finish_reason=call.finish_reason,
            error=call.error,
        )
        records.append(record)
    records += [_end(last[workflow], at_s) for workflow, at_s in ends.items() if workflow in last]
    return records


def end_all(records: Iterable[InvocationRecord]) -> list[InvocationRecord]:
    """``records``, and an end of every workflow that has none."""
    records = list(records)
    ended = {record.workflow_id for record in records if record.kind is RecordKind.END}
    last: dict[str, InvocationRecord] = {}
    for record in records:
        if record.workflow_id not in ended and (
            record.workflow_id not in last or record.seq > last[record.workflow_id].seq
        ):
            last[record.workflow_id] = record
    return records + [_end(record, record.finished_at_s) for record in last.values()]


def _end(last: InvocationRecord, at_s: float) -> InvocationRecord:
    """The end of a workflow whose last call is ``last``."""
    at_s = max(at_s, last.finished_at_s)
    return InvocationRecord(
        RecordKind.END, last.tenant, last.workflow, last.seq + 1, sent_at_s=at_s, finished_at_s=at_s
    )
