"""The messages that a scripted workflow sends, built as its calls are answered."""

from __future__ import annotations

from loadgen.text import render
from pbkv.workload import ScriptedCall, ScriptedWorkflow

Message = dict[str, str]


class Dialogue:
    """One workflow's contexts as chat messages.

    The first segment of a context is its system message. Text that follows text of the same role
    goes on in the same message, so that an instruction which is not kept leaves a common prefix.
    """

    def __init__(self, script: ScriptedWorkflow) -> None:
        self._contexts: dict[str, list[Message]] = {}
        for name, held in script.contexts.items():
            messages: list[Message] = []
            if held:
                messages.append({"role": "system", "content": render(held[:1])})
                _say(messages, "user", render(held[1:]))
            self._contexts[name] = messages

    def messages(self, call: ScriptedCall) -> list[Message]:
        """The prompt of ``call``; what it adds joins the context."""
        context = self._contexts[call.context]
        _say(context, "user", render(call.added))
        prompt = [dict(message) for message in context]
        _say(prompt, "user", render(call.instruction))
        return prompt

    def answered(self, call: ScriptedCall, text: str) -> None:
        """The reply joins the context, where the script keeps it."""
        if call.keep_output:
            _say(self._contexts[call.context], "assistant", text)


def _say(messages: list[Message], role: str, text: str) -> None:
    if not text:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += f"\n\n{text}"
    else:
        messages.append({"role": role, "content": text})
