"""An ordinary AutoGen application."""

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient

URL = sys.argv[1]
INFO = {
    "vision": False,
    "function_calling": True,
    "json_output": True,
    "family": "unknown",
    "structured_output": False,
    "multiple_system_messages": True,
}
client = OpenAIChatCompletionClient(
    model="fake-model", base_url=f"{URL}/v1", api_key="sk-test", model_info=INFO
)


async def team(task: str, *, streaming: bool) -> None:
    agents = [
        AssistantAgent(name, model_client=client, model_client_stream=streaming)
        for name in ("coder", "tester")
    ]
    chat = RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(3))
    await chat.run(task=task)


async def selected() -> None:
    agents = [
        AssistantAgent(name, description=name, model_client=client) for name in ("coder", "tester")
    ]
    chat = SelectorGroupChat(
        agents, model_client=client, termination_condition=MaxMessageTermination(2)
    )
    await chat.run(task="c")


async def main() -> None:
    await asyncio.gather(team("a", streaming=False), team("b", streaming=True))
    await AssistantAgent("soloist", model_client=client).run(task="hi")
    await selected()


asyncio.run(main())
