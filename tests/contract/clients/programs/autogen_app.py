"""An ordinary AutoGen application."""

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient

URL, HOW = sys.argv[1:3]
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


async def one(task: str) -> None:
    streaming = HOW == "stream"
    agents = [
        AssistantAgent(name, model_client=client, model_client_stream=streaming)
        for name in ("coder", "tester")
    ]
    team = RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(3))
    await team.run(task=task)


async def main() -> None:
    if HOW == "alone":
        await AssistantAgent("coder", model_client=client).run(task="hi")
    else:
        await asyncio.gather(one("a"), one("b"))


asyncio.run(main())
