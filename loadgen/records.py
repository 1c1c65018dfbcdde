"""What was measured: one record per call and per workflow, failures included.

All times are seconds on one clock that starts with the run. A call is *due* when its workflow wants
it, *sent* when the client got round to it; the difference is the generator's own lag and is never
subtracted from what a workflow took.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

TOKENS = ("content", "reasoning_content", "reasoning", "tool_calls")
"""Where a streamed chunk may hold a token: models that reason say so before their answer."""


def token_count(value: object) -> int | None:
    """A count out of an answer's ``usage``; None for whatever is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class ErrorKind(StrEnum):
    """Why a call has no good answer."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    KEY = "key"
    LIMITED = "limited"
    UNAVAILABLE = "unavailable"
    CLIENT = "4xx"
    SERVER = "5xx"
    BROKEN_STREAM = "broken-stream"
    NOT_OPENAI = "not-openai"
    PROGRAM = "program"
    CUT = "cut"


MEANINGS = {
    ErrorKind.UNREACHABLE: "no connection to the endpoint, or it was reset before an answer",
    ErrorKind.TIMEOUT: "no whole answer in the time that a call has",
    ErrorKind.TLS: "no secure connection: the certificate is not trusted, or there is no TLS",
    ErrorKind.KEY: "the endpoint refuses the key (401, 403)",
    ErrorKind.LIMITED: "too many requests (429), also after waiting as the endpoint told",
    ErrorKind.UNAVAILABLE: "no room at the endpoint (503), also after waiting as it told",
    ErrorKind.CLIENT: "the endpoint takes the request for wrong: its model, its length, an option",
    ErrorKind.SERVER: "the endpoint failed by itself",
    ErrorKind.BROKEN_STREAM: "the answer began and did not reach its end",
    ErrorKind.NOT_OPENAI: "the answer is no chat completion",
    ErrorKind.PROGRAM: "the agent program failed by itself, outside of any call",
    ErrorKind.CUT: "the run was stopped while the call was under way",
}
"""For the reader of a report."""


class WorkflowState(StrEnum):
    """How a workflow ended."""

    FINISHED = "finished"
    FAILED = "failed"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of one agent. Token counts are None where the endpoint did not tell."""

    workflow_id: str
    agent: str
    step: int
    due_s: float
    sent_s: float
    finished_s: float
    first_token_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    retries: int = 0
    replica: str = ""
    error: ErrorKind | None = None
    detail: str = ""

    @property
    def lag_s(self) -> float:
        """How late the generator was."""
        return self.sent_s - self.due_s

    @property
    def ttft_s(self) -> float | None:
        """From sending to the first token; waits that a 429 or 503 asked for are part of it."""
        return None if self.first_token_s is None else self.first_token_s - self.sent_s

    @property
    def latency_s(self) -> float:
        return self.finished_s - self.sent_s


@dataclass(frozen=True, slots=True)
class WorkflowRecord:
    """One workflow. ``warm_up`` workflows load the endpoint and are not part of the numbers."""

    workflow_id: str
    due_s: float
    started_s: float
    finished_s: float
    state: WorkflowState
    warm_up: bool = False

    @property
    def latency_s(self) -> float:
        """From the time it was due, think and tool times included."""
        return self.finished_s - self.due_s


@dataclass(slots=True)
class RunRecords:
    """Everything one run measured."""

    calls: list[CallRecord] = field(default_factory=list)
    workflows: list[WorkflowRecord] = field(default_factory=list)
    duration_s: float = 0.0
    interrupted: bool = False
    waiting: int = 0
    """Workflows that were due and had not begun when the run ended, for want of room."""

    def measured(self) -> RunRecords:
        """Without the warm-up."""
        warm = {workflow.workflow_id for workflow in self.workflows if workflow.warm_up}
        return RunRecords(
            [call for call in self.calls if call.workflow_id not in warm],
            [workflow for workflow in self.workflows if not workflow.warm_up],
            self.duration_s,
            self.interrupted,
            self.waiting,
        )
