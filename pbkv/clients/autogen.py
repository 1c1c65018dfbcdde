"""AutoGen: one run of a team, or of an agent by itself, is a workflow; agents go by their names.

A team on a runtime that was started elsewhere runs outside of its caller's context, and its calls
carry no workflow.
"""

from __future__ import annotations

import functools
from typing import Any

from autogen_agentchat.agents import BaseChatAgent

from pbkv.clients.scope import agent, each_agent_step, each_async_step, workflow

SELECTOR = "selector"
"""The model call of a selector group chat that picks the next speaker."""


def attach_agents() -> None:
    """Change all agent classes, those that are defined later as well."""
    if getattr(BaseChatAgent.run_stream, "_pbkv", False):
        return
    BaseChatAgent.run_stream = _run_stream(BaseChatAgent.run_stream)
    BaseChatAgent.run = _run(BaseChatAgent.run)
    for kind in (BaseChatAgent, *_subclasses(BaseChatAgent)):
        _name_agent(kind)
    _follow_new_agents()


def attach_teams() -> None:
    """Change teams. Their package loads after that of the agents, which may load without it."""
    from autogen_agentchat.teams import BaseGroupChat
    from autogen_agentchat.teams._group_chat import _selector_group_chat

    if getattr(BaseGroupChat.run_stream, "_pbkv", False):
        return
    BaseGroupChat.run_stream = _run_stream(BaseGroupChat.run_stream)
    manager = _selector_group_chat.SelectorGroupChatManager
    manager.select_speaker = _select(manager.select_speaker)


def _run_stream(original: Any) -> Any:
    @functools.wraps(original)
    def run_stream(self: Any, *args: Any, **options: Any) -> Any:
        return each_async_step(aiter(original(self, *args, **options)), "")

    run_stream._pbkv = True  # type: ignore[attr-defined]
    return run_stream


def _run(original: Any) -> Any:
    @functools.wraps(original)
    async def run(self: Any, *args: Any, **options: Any) -> Any:
        # An agent by itself answers by on_messages, without its stream.
        with workflow(), agent(self.name):
            return await original(self, *args, **options)

    return run


def _name_agent(kind: Any) -> None:
    original = kind.__dict__.get("on_messages_stream")
    if original is None or getattr(original, "_pbkv", False):
        return

    @functools.wraps(original)
    def on_messages_stream(self: Any, *args: Any, **options: Any) -> Any:
        return each_agent_step(aiter(original(self, *args, **options)), self.name)

    on_messages_stream._pbkv = True  # type: ignore[attr-defined]
    kind.on_messages_stream = on_messages_stream


def _follow_new_agents() -> None:
    inherited = BaseChatAgent.__init_subclass__.__func__

    def init_subclass(cls: Any, /, **options: Any) -> None:
        inherited(cls, **options)
        _name_agent(cls)

    BaseChatAgent.__init_subclass__ = classmethod(init_subclass)


def _select(original: Any) -> Any:
    @functools.wraps(original)
    async def select_speaker(self: Any, *args: Any, **options: Any) -> Any:
        with agent(SELECTOR):
            return await original(self, *args, **options)

    return select_speaker


def _subclasses(kind: type) -> list[type]:
    found: list[type] = []
    subclass: type
    for subclass in kind.__subclasses__():
        found += [subclass, *_subclasses(subclass)]
    return found
