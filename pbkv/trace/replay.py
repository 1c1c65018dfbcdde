"""Traces as scripted workflows, so that bench, simulator and load generator can replay them.

A trace tells lengths and not texts, so what a prompt shares with others is a model: everything an
agent was sent is one context that grows, and a prompt shorter than what its context holds begins a
new one. Prompt lengths, output lengths, order and pauses are exactly those of the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from pbkv.errors import InvalidTrace
from pbkv.trace.workflows import WorkflowTrace
from pbkv.workload.script import ScriptedCall, ScriptedWorkflow, Segment


class ContextLayout(StrEnum):
    """Who shares a context."""

    PRIVATE = "private"
    """Each agent has its own history."""
    SHARED = "shared"
    """All agents of a workflow read and write one transcript."""


def scripted_workflows(
    traces: Iterable[WorkflowTrace], layout: ContextLayout = ContextLayout.PRIVATE
) -> list[ScriptedWorkflow]:
    """One script per trace. Raises :class:`InvalidTrace` where a call's lengths are not known."""
    traces = [trace for trace in traces if trace.served]
    shared = shared_prefixes(traces)
    return [_script(trace, f"trace-{index}", layout, shared) for index, trace in enumerate(traces)]


def shared_prefixes(traces: Sequence[WorkflowTrace]) -> dict[str, int]:
    """Tokens that each agent's prompt is taken to share with those of other workflows.

    The least that a workflow's first call of that agent found in the cache, the first workflow of
    all apart, which found none; so it is never more than was really shared.
    """
    least: dict[str, int] = {}
    seen: set[str] = set()
    for trace in traces:
        first_calls = {call.record.agent: call.record for call in reversed(trace.served)}
        for agent, record in first_calls.items():
            if agent in seen:
                cached = record.cached_tokens or 0
                least[agent] = min(least.get(agent, cached), cached)
            seen.add(agent)
    return least


def _script(
    trace: WorkflowTrace, name: str, layout: ContextLayout, shared: Mapping[str, int]
) -> ScriptedWorkflow:
    lengths = [_lengths(trace, index) for index in range(len(trace.served))]
    held: dict[str, int] = {}
    contexts: dict[str, tuple[Segment, ...]] = {}
    current: dict[str, str] = {}
    calls: list[ScriptedCall] = []
    for index, traced in enumerate(trace.served):
        record = traced.record
        prompt, output = lengths[index]
        owner = record.agent if layout is ContextLayout.PRIVATE else "transcript"
        context = current.get(owner)
        if context is None or prompt < held[context]:
            context = current[owner] = f"{owner}#{len(contexts)}"
            prefix = min(shared.get(record.agent, 0), prompt)
            contexts[context] = (Segment(f"trace/{record.agent}", prefix),) if prefix else ()
            held[context] = prefix
        grown = prompt - held[context]
        following = _next_prompt(trace, lengths, index, owner, layout)
        keep = following is not None and following >= prompt + output
        calls.append(
            ScriptedCall(
                agent=record.agent,
                context=context,
                added=(Segment(f"{name}/{index}", grown),) if grown else (),
                instruction=(),
                output_tokens=output,
                keep_output=keep,
                pause_s=_pause_s(trace, index),
            )
        )
        held[context] = prompt + (output if keep else 0)
    return ScriptedWorkflow(name, contexts, tuple(calls))


def _lengths(trace: WorkflowTrace, index: int) -> tuple[int, int]:
    record = trace.served[index].record
    if record.prompt_tokens is None or record.completion_tokens is None:
        raise InvalidTrace(
            f"workflow {trace.workflow_id}: call {index + 1} has no token counts to replay"
        )
    return record.prompt_tokens, max(1, record.completion_tokens)


def _next_prompt(
    trace: WorkflowTrace,
    lengths: Sequence[tuple[int, int]],
    index: int,
    owner: str,
    layout: ContextLayout,
) -> int | None:
    """Length of the next prompt that reads the same context."""
    for later in range(index + 1, len(lengths)):
        if layout is ContextLayout.SHARED or trace.served[later].record.agent == owner:
            return lengths[later][0]
    return None


def _pause_s(trace: WorkflowTrace, index: int) -> float:
    if index + 1 == len(trace.served):
        return 0.0
    finished_at_s = trace.served[index].record.finished_at_s
    return max(0.0, trace.served[index + 1].record.sent_at_s - finished_at_s)
