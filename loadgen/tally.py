"""Running counts, for those who watch a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from loadgen.records import CallRecord, ErrorKind, WorkflowRecord


@dataclass(slots=True)
class Tally:
    """What has happened so far."""

    calls: int = 0
    running: int = 0
    finished: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    errors: Counter[ErrorKind] = field(default_factory=Counter)

    def add_call(self, call: CallRecord) -> None:
        self.calls += 1
        if call.error is not None:
            self.errors[call.error] += 1
        if call.prompt_tokens is not None and call.cached_tokens is not None:
            self.prompt_tokens += call.prompt_tokens
            self.cached_tokens += call.cached_tokens

    def add_workflow(self, workflow: WorkflowRecord) -> None:
        self.running -= 1
        if workflow.state == "finished":
            self.finished += 1
        else:
            self.failed += 1
