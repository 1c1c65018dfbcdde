"""CrewAI: one kick-off of a crew is a workflow, an agent goes by its role."""

from __future__ import annotations

import functools
from typing import Any

from crewai import Agent, Crew

from pbkv.clients.scope import agent, workflow


def attach() -> None:
    """Change the ways to kick off a crew, and the ways in which its agents work."""
    if getattr(Crew.kickoff, "_pbkv", False):
        return
    Crew.kickoff = _kickoff(Crew.kickoff)
    Crew.akickoff = _kickoff_async(Crew.akickoff)
    Agent.execute_task = _working(Agent.execute_task)
    Agent.aexecute_task = _working_async(Agent.aexecute_task)
    # An agent without a crew: a workflow of its own, or part of the one around it.
    Agent.kickoff = _kickoff(_working(Agent.kickoff))
    Agent.kickoff_async = _kickoff_async(_working_async(Agent.kickoff_async))


def _kickoff(original: Any) -> Any:
    @functools.wraps(original)
    def kickoff(self: Any, *args: Any, **options: Any) -> Any:
        if getattr(self, "stream", False):
            # Returns at once; the same is called again, without stream, where the work is done.
            return original(self, *args, **options)
        with workflow():
            return original(self, *args, **options)

    kickoff._pbkv = True  # type: ignore[attr-defined]
    return kickoff


def _kickoff_async(original: Any) -> Any:
    @functools.wraps(original)
    async def kickoff(self: Any, *args: Any, **options: Any) -> Any:
        if getattr(self, "stream", False):
            return await original(self, *args, **options)
        with workflow():
            return await original(self, *args, **options)

    return kickoff


def _working(original: Any) -> Any:
    @functools.wraps(original)
    def work(self: Any, *args: Any, **options: Any) -> Any:
        with agent(self.role):
            return original(self, *args, **options)

    return work


def _working_async(original: Any) -> Any:
    @functools.wraps(original)
    async def work(self: Any, *args: Any, **options: Any) -> Any:
        with agent(self.role):
            return await original(self, *args, **options)

    return work
