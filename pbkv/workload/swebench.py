"""SWE-bench-like code generation: five agents with private histories, in bursts and retry loops.

Agents and lengths come from traces of a real multi-agent system on SWE-bench, or from the
generated sample; prompts are the agent's system prompt and its own growing history, as AutoGen
builds them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from pbkv.workload.script import ScriptedCall, ScriptedWorkflow, Segment

SYSTEM_TOKENS = {
    "Manager": 1432,
    "Reproducer": 1716,
    "Debugger": 1821,
    "Programmer": 1320,
    "Tester": 1218,
}
"""System prompt of each agent, in tokens at scale 1."""


@dataclass(frozen=True, slots=True)
class CallLength:
    """One call of a recorded workflow: the whole prompt and the reply, in tokens."""

    agent: str
    prompt_tokens: int
    output_tokens: int


def swebench_workflow(
    trace: list[CallLength],
    index: int,
    *,
    seed: int,
    scale: float = 1.0,
    max_calls: int = 40,
    max_prompt_tokens: int = 32_768,
    pause_mean_s: float = 0.3,
) -> ScriptedWorkflow:
    """One workflow with the calls of ``trace``, its token counts multiplied by ``scale``.

    A history only grows: where a recorded prompt is shorter than the history that replies made,
    the call adds the least that any call adds. ``max_prompt_tokens`` is after scaling.
    """
    rng = random.Random(f"swebench/{seed}/{index}")
    workflow_id = f"swebench-{seed}-{index}"
    contexts = {
        agent: (Segment(f"swebench/system/{agent}", max(1, round(tokens * scale))),)
        for agent, tokens in SYSTEM_TOKENS.items()
    }
    held = {agent: segments[0].num_tokens for agent, segments in contexts.items()}
    least_added = max(1, round(20 * scale))
    calls = []
    for step, call in enumerate(trace[:max_calls]):
        output_tokens = max(1, round(call.output_tokens * scale))
        wanted = min(round(call.prompt_tokens * scale), max_prompt_tokens - output_tokens)
        added = max(least_added, wanted - held[call.agent])
        if held[call.agent] + added + output_tokens > max_prompt_tokens:
            break
        calls.append(
            ScriptedCall(
                agent=call.agent,
                context=call.agent,
                added=(Segment(f"{workflow_id}/{step}", added),),
                instruction=(),
                output_tokens=output_tokens,
                pause_s=rng.expovariate(1.0 / pause_mean_s),
            )
        )
        held[call.agent] += added + output_tokens
    return ScriptedWorkflow(workflow_id, contexts, tuple(calls))
