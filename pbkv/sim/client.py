"""A scripted workflow on the side of its client: which request comes next."""

from __future__ import annotations

from pbkv.invocation import Invocation
from pbkv.sim.pages import PageChain, segment_id
from pbkv.sim.request import SimRequest
from pbkv.workload import ScriptedWorkflow


class WorkflowRun:
    """Builds the prompts of one workflow, call by call, as page chains."""

    def __init__(
        self, script: ScriptedWorkflow, *, page_size: int, max_new_tokens: int | None, now_s: float
    ) -> None:
        self.script = script
        self.started_s = now_s
        self.step = 0
        self._max_new_tokens = max_new_tokens
        self._contexts = {
            name: PageChain.of(held, page_size) for name, held in script.contexts.items()
        }

    @property
    def done(self) -> bool:
        """Whether no call is left."""
        return self.step == len(self.script.calls)

    def next_request(self, arrival: int, now_s: float) -> SimRequest:
        """The next call as a request; ``arrival`` numbers requests as they come."""
        call = self.script.calls[self.step]
        self.step += 1
        context = self._contexts[call.context]
        context.add(call.added)
        reply = segment_id(f"{self.script.workflow_id}/reply/{self.step}")
        prompt_tokens = context.num_tokens + sum(s.num_tokens for s in call.instruction)
        if call.instruction or not call.keep_output:
            whole = context.copy()
            whole.add(call.instruction)
            whole.extend(reply, call.output_tokens)
            if call.keep_output:
                context.extend(reply, call.output_tokens)
        else:
            context.extend(reply, call.output_tokens)
            whole = context
        output_tokens = max(1, call.output_tokens)
        return SimRequest(
            invocation=Invocation(
                self.script.workflow_id, call.agent, at_s=now_s, step=self.step, end=self.done
            ),
            ids=whole.ids,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            max_new_tokens=max(output_tokens, self._max_new_tokens or 0),
            arrival=arrival,
            arrived_s=now_s,
        )

    @property
    def pause_s(self) -> float:
        """How long the workflow pauses after the call that was sent last."""
        return self.script.calls[self.step - 1].pause_s

    def sent_reads(self, start: int, page_id: int) -> bool:
        """Whether the prompt that was sent last holds ``page_id`` as its page number ``start``."""
        context = self._contexts[self.script.calls[self.step - 1].context]
        return start < len(context.ids) and context.ids[start] == page_id

    def calls_until(self, start: int, page_id: int) -> int | None:
        """In how many calls, counted from the one sent last, the prompt holds ``page_id`` as its
        page number ``start``; None for never."""
        for name, context in self._contexts.items():
            if start < len(context.ids) and context.ids[start] == page_id:
                for ahead, call in enumerate(self.script.calls[self.step :], start=1):
                    if call.context == name:
                        return ahead
        return None
