"""A scripted workflow: its calls, and the prompts they send, fixed before it runs.

The bench, the simulator and the load generator replay the same scripts, so that policies meet the
same work. A prompt is made of what a *context* holds so far plus an instruction that is not kept;
a context grows by new text before a call and, usually, by the reply after it. One context per
workflow models a shared transcript, one per agent models private histories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """``num_tokens`` tokens of text. Equal ``seed`` means equal tokens, in any workflow.

    ``text`` is real text whose tokens come first, cut or continued by synthetic tokens to
    ``num_tokens``; without it all tokens are synthetic.
    """

    seed: str
    num_tokens: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One call of one agent.

    The prompt is the content of ``context``, then ``added`` (which stays in the context), then
    ``instruction`` (which does not). After it the reply of ``output_tokens`` tokens joins the
    context if ``keep_output``, and the workflow pauses for ``pause_s`` (a tool runs).
    """

    agent: str
    context: str
    added: tuple[Segment, ...]
    instruction: tuple[Segment, ...]
    output_tokens: int
    keep_output: bool = True
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ScriptedWorkflow:
    """Calls in order, and what each context holds before the first of them."""

    workflow_id: str
    contexts: Mapping[str, tuple[Segment, ...]]
    calls: tuple[ScriptedCall, ...]

    def prompt_tokens(self) -> Iterator[int]:
        """Length of the prompt of each call, in tokens."""
        length = {name: _tokens(held) for name, held in self.contexts.items()}
        for call in self.calls:
            length[call.context] += _tokens(call.added)
            yield length[call.context] + _tokens(call.instruction)
            if call.keep_output:
                length[call.context] += call.output_tokens


def _tokens(segments: tuple[Segment, ...]) -> int:
    return sum(segment.num_tokens for segment in segments)
