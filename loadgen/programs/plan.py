"""What a program's run follows: the seeded plan of its workload, or the model's own words."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum

from pbkv.workload import ScriptedWorkflow


class Decisions(StrEnum):
    """Who decides where a workflow goes next, and how long answers are."""

    WORKLOAD = "workload"
    """The plan; the text that would decide it is in the prompt. For models too small to decide."""
    MODEL = "model"


@dataclass(slots=True)
class Plan:
    """One workflow's script and how far its program has come."""

    script: ScriptedWorkflow
    decisions: Decisions
    pause_scale: float = 1.0
    answered: int = 0
    sent: int = 0
    sent_s: float = 0.0
    failed: Callable[[], None] | None = None
    """Records the last call, which failed; a client of OpenAI's may yet try it again."""

    @property
    def follows(self) -> bool:
        return self.decisions is Decisions.WORKLOAD

    @property
    def agents(self) -> list[str]:
        return [call.agent for call in self.script.calls]

    def next_agent(self) -> str | None:
        """Whose turn it is after the calls that were answered; None at the end."""
        calls = self.script.calls
        return calls[self.answered].agent if self.answered < len(calls) else None

    def begin_call(self) -> tuple[float, int | None]:
        """Of the call that is about to be sent: how long the tool before it takes, in seconds, and
        how long the answer is, in tokens; None leaves that to the model."""
        self.settle()
        index, self.sent = self.sent, self.sent + 1
        calls = self.script.calls
        pause_s = calls[index - 1].pause_s * self.pause_scale if 0 < index <= len(calls) else 0.0
        tokens = calls[index].output_tokens if self.follows and index < len(calls) else None
        return pause_s, tokens

    def repeat_call(self) -> int | None:
        """The last call is sent once more: how long its answer is. Its failure is forgotten."""
        self.failed = None
        calls = self.script.calls
        index = self.sent - 1
        return calls[index].output_tokens if self.follows and 0 <= index < len(calls) else None

    def settle(self) -> None:
        """No one tries the last call again: if it failed, it is recorded so."""
        failed, self.failed = self.failed, None
        if failed is not None:
            failed()


current_plan: ContextVar[Plan | None] = ContextVar("loadgen_plan", default=None)
