"""SWE-bench code generation in AutoGen: five agents with private histories and retry loops.

After the Programmer a real test run decides. With decisions of the workload it is run on the
repaired module where the plan goes on to the end, and on the broken one where it goes back, so that
the Tester's prompt holds the true result of the tests that were run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import SelectorGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient

from loadgen.programs.plan import Plan
from loadgen.tools.repository import MODULE, Repository, module_in
from loadgen.tools.sandbox import run_tests

_ROLES = {
    "Manager": "You lead the team: read the issue, say who does what. Write RESOLVED when the "
    "tests pass, else NEXT: and the name of the agent that should go on.",
    "Reproducer": "You reproduce the issue: describe the smallest input that shows it.",
    "Debugger": "You find the cause: name the line that is wrong and say why.",
    "Programmer": f"You repair {MODULE}: answer with the whole module in one ```python block.",
    "Tester": "You read the results of the test run and say PASS or FAIL and what to do next.",
}
_COMMON = (
    "You are one of five agents that repair a bug in a repository: Manager, Reproducer, Debugger, "
    "Programmer, Tester. Be brief and keep to your role. "
)
_MAX_TURNS = 60
# Who goes on where the model names no one.
_AFTER = {
    "Manager": "Reproducer",
    "Reproducer": "Debugger",
    "Debugger": "Programmer",
    "Programmer": "Tester",
}


async def repair(repository: Repository, plan: Plan, client: OpenAIChatCompletionClient) -> str:
    """Work on one issue until it is resolved or the turns are used up; why it stopped."""
    desk = _Desk(repository, plan)
    agents = [
        _Member(
            name,
            model_client=client,
            system_message=_COMMON + role,
            description=role,
            model_client_stream=True,
            desk=desk,
        )
        for name, role in _ROLES.items()
    ]
    turns = len(plan.agents) if plan.follows else _MAX_TURNS
    end: Any = MaxMessageTermination(turns + 1)
    if not plan.follows:
        end |= TextMentionTermination("RESOLVED", sources=["Manager"])
    team = SelectorGroupChat(
        agents,
        model_client=client,
        termination_condition=end,
        selector_func=desk.next_speaker,
        allow_repeated_speaker=True,
    )
    text = "\n\n".join(f"{name}:\n{content}" for name, content in repository.files.items())
    result = await team.run(task=f"Issue: {repository.issue}\n\n{text}")
    return str(result.stop_reason)


class _Desk:
    """What the agents share besides their words: the module as it stands and its tests."""

    def __init__(self, repository: Repository, plan: Plan) -> None:
        self._repository = repository
        self._plan = plan
        self._module = repository.files[MODULE]

    def next_speaker(self, messages: Sequence[Any]) -> str | None:
        if self._plan.follows:
            return self._plan.next_agent()
        said: str = messages[-1].to_text()
        if "NEXT:" in said:
            named = said.rpartition("NEXT:")[2].split()
            if named and named[0].strip(".,*") in _ROLES:
                return named[0].strip(".,*")
        return _AFTER.get(str(messages[-1].source), "Manager")

    async def before(self, agent: str) -> str:
        """What a tool gives ``agent`` before its turn."""
        if agent != "Tester":
            return ""
        module = self._module
        if self._plan.follows:
            agents = self._plan.agents
            later = agents[self._plan.answered + 1 :]
            passes = not {"Debugger", "Programmer"} & set(later)
            broken = self._repository.files[MODULE]
            module = self._repository.repaired if passes else broken
        result = await run_tests(self._repository.with_module(module))
        return f"Test run {'passed' if result.passed else 'failed'}:\n{result.output}"

    def after(self, agent: str, reply: str) -> None:
        self._plan.answered += 1
        if agent == "Programmer":
            self._module = module_in(reply) or self._module


class _Member(AssistantAgent):
    """An assistant whose tools are run for it, before its turn."""

    def __init__(self, *args: Any, desk: _Desk, **options: Any) -> None:
        super().__init__(*args, **options)
        self._desk = desk

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: Any
    ) -> AsyncGenerator[Any, None]:
        given = await self._desk.before(self.name)
        if given:
            messages = [*messages, TextMessage(source="tools", content=given)]
        reply = ""
        async for event in super().on_messages_stream(messages, cancellation_token):
            answer = getattr(event, "chat_message", None)
            if answer is not None:
                reply = answer.to_text()
                self._desk.after(self.name, reply)
            yield event
