"""Runs scripted workflows: the same calls, lengths and pauses whatever the answers say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from loadgen.client import CallRequest, ChatClient
from loadgen.dialogue import Dialogue
from loadgen.records import CallRecord, ErrorKind, WorkflowState
from pbkv.workload import ScriptedWorkflow


class ScriptedRunner:
    """Workflow ``index`` is script ``index``; ``prefix`` makes its id new in every run.

    Pauses (think and tool times) are multiplied by ``pause_scale``.
    """

    def __init__(
        self,
        scripts: Sequence[ScriptedWorkflow],
        client: ChatClient,
        clock: Callable[[], float],
        *,
        prefix: str,
        pause_scale: float = 1.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._scripts = scripts
        self._client = client
        self._clock = clock
        self._prefix = prefix
        self._pause_scale = pause_scale
        self._sleep = sleep

    async def __call__(
        self, index: int, due_s: float, record: Callable[[CallRecord], None]
    ) -> tuple[str, WorkflowState]:
        script = self._scripts[index]
        workflow_id = f"{self._prefix}-{script.workflow_id}"
        current: CallRequest | None = None
        try:
            dialogue = Dialogue(script)
            for step, call in enumerate(script.calls, start=1):
                last = step == len(script.calls)
                current = CallRequest(
                    workflow_id,
                    call.agent,
                    step,
                    dialogue.messages(call),
                    call.output_tokens,
                    due_s,
                    end=last,
                )
                answered, text = await self._client.call(current)
                record(answered)
                current = None
                if answered.error is not None:
                    # What follows would be another conversation than the script's.
                    await self._client.end(workflow_id)
                    return workflow_id, WorkflowState.FAILED
                dialogue.answered(call, text)
                if not last:
                    due_s = answered.finished_s + call.pause_s * self._pause_scale
                    await self._sleep(max(0.0, due_s - self._clock()))
        except asyncio.CancelledError:
            if current is not None:
                record(_cut(current, self._clock()))
            await self._client.end(workflow_id)
            return workflow_id, WorkflowState.CUT
        return workflow_id, WorkflowState.FINISHED


def _cut(request: CallRequest, now_s: float) -> CallRecord:
    cut = CallRecord(
        request.workflow_id,
        request.agent,
        request.step,
        request.due_s,
        sent_s=request.due_s,
        finished_s=now_s,
    )
    return replace(cut, error=ErrorKind.CUT)
