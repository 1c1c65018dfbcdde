"""Workflows with the text of every prompt: what a hidden state can be computed from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromptedCall:
    """One call: what the transcript gains before it, and the instruction that is not kept."""

    agent: str
    added: str
    instruction: str


@dataclass(frozen=True, slots=True)
class PromptedWorkflow:
    """Calls over one shared transcript that begins with ``opening``.

    The prompt of a call is a system message and one user message: the transcript so far, then the
    call's instruction. A workflow without text (:attr:`has_text` false) has agents only.
    """

    workflow_id: str
    system: str
    opening: str
    calls: tuple[PromptedCall, ...]
    has_text: bool = True

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(call.agent for call in self.calls)

    def user_message(self, step: int) -> str:
        """The user message of call ``step``, counted from 0."""
        added = "".join(call.added for call in self.calls[: step + 1])
        return self.opening + added + self.calls[step].instruction
