"""Which workflow and agent the running code belongs to: context variables, so that threads that
copy their context, tasks and interleaved generators are kept apart."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from pbkv.clients.ending import Router, signal_end
from pbkv.clients.names import MAX_WORKFLOW_CHARS, sendable

T = TypeVar("T")
V = TypeVar("V")


@dataclass(eq=False, slots=True)
class Workflow:
    """A workflow under way, and the routers that answered its calls."""

    workflow_id: str
    routers: set[Router] = field(default_factory=set)
    over: bool = False

    def answered_by(self, router: Router) -> None:
        """Remember it for the end; a call later than that is ended at once."""
        self.routers.add(router)
        if self.over:
            self.end()

    def end(self) -> None:
        """Tell the routers, behind the back of the application."""
        self.over = True
        for router in self.routers:
            signal_end(router, self.workflow_id)
        self.routers.clear()


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose the running code is, to hand on to a thread."""

    workflow: Workflow | None
    agent: str


_workflow: ContextVar[Workflow | None] = ContextVar("pbkv_workflow", default=None)
_agent: ContextVar[str] = ContextVar("pbkv_agent", default="")
# In a thread that was handed its scope: the agent that started it. None elsewhere.
_starter: ContextVar[str | None] = ContextVar("pbkv_starter", default=None)
_fallback: list[Workflow] = []
_agent_sources: list[Callable[[], str]] = []


def current_workflow() -> Workflow | None:
    """That of the running code, else that of the process, if it has one."""
    opened = _workflow.get()
    if opened is not None and opened.over and _starter.get() is not None:
        # A thread that outlives the workflow it was started in has moved on to something else.
        opened = None
    return opened or (_fallback[0] if _fallback else None)


def current_agent() -> str:
    """The agent's name; empty if nobody knows. A thread goes by the name of its starter."""
    named = _agent.get() or next((name for ask in _agent_sources if (name := ask())), "")
    return named or _starter.get() or ""


def add_agent_source(source: Callable[[], str]) -> None:
    """Ask ``source`` for the agent's name where no one has set it."""
    if source not in _agent_sources:
        _agent_sources.append(source)


def _id(wanted: str) -> str:
    return sendable(wanted, MAX_WORKFLOW_CHARS) or f"wf-{uuid.uuid4().hex}"


@contextmanager
def workflow(workflow_id: str = "") -> Iterator[str]:
    """Calls made inside belong to this workflow, which ends with the block, however it is left.

    Inside another workflow the block belongs to that one: a subgraph or a nested team is no
    workflow of its own. Yields the id.
    """
    outer = _workflow.get()
    if outer is not None:
        yield outer.workflow_id
        return
    opened = Workflow(_id(workflow_id))
    token = _workflow.set(opened)
    try:
        yield opened.workflow_id
    finally:
        _workflow.reset(token)
        opened.end()


@contextmanager
def agent(name: str) -> Iterator[None]:
    """Calls made inside are this agent's; the innermost counts."""
    token = _agent.set(name)
    try:
        yield
    finally:
        _agent.reset(token)


def current_scope() -> Scope:
    """That of the running code, without the workflow of the process."""
    return Scope(_workflow.get(), current_agent())


@contextmanager
def handed_on(scope: Scope) -> Iterator[None]:
    """The code inside, in another thread, is whose ``scope`` is, until the workflow ends."""
    workflow, starter = _workflow.set(scope.workflow), _starter.set(scope.agent)
    try:
        yield
    finally:
        _starter.reset(starter)
        _workflow.reset(workflow)


def process_workflow(workflow_id: str = "") -> Workflow:
    """From now on, calls outside of any workflow belong to this one."""
    opened = Workflow(_id(workflow_id))
    _fallback[:] = [opened]
    return opened


def each_step(steps: Iterator[T], workflow_id: str) -> Iterator[T]:
    """A generator whose own code runs in a workflow, and what consumes it does not.

    A context variable set inside a generator would be seen by its consumer between two steps.
    """
    if _workflow.get() is not None:
        yield from steps
        return
    opened = Workflow(_id(workflow_id))
    try:
        while True:
            token = _workflow.set(opened)
            try:
                step = next(steps)
            except StopIteration:
                return
            finally:
                _workflow.reset(token)
            yield step
    finally:
        _close(steps)
        opened.end()


async def each_async_step(steps: AsyncIterator[T], workflow_id: str) -> AsyncIterator[T]:
    """As :func:`each_step`."""
    if _workflow.get() is not None:
        async with aclosing(_closable(steps)) as inner:
            async for step in inner:
                yield step
        return
    opened = Workflow(_id(workflow_id))
    try:
        async with aclosing(_async_steps(steps, _workflow, opened)) as inner:
            async for step in inner:
                yield step
    finally:
        opened.end()


async def each_agent_step(steps: AsyncIterator[T], name: str) -> AsyncIterator[T]:
    """An asynchronous generator whose own code is an agent's."""
    async with aclosing(_async_steps(steps, _agent, name)) as inner:
        async for step in inner:
            yield step


async def _async_steps(
    steps: AsyncIterator[T], variable: ContextVar[V], value: V
) -> AsyncGenerator[T, None]:
    try:
        while True:
            token = variable.set(value)
            try:
                step = await anext(steps)
            except StopAsyncIteration:
                return
            finally:
                variable.reset(token)
            yield step
    finally:
        if hasattr(steps, "aclose"):
            await steps.aclose()


async def _closable(steps: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    try:
        async for step in steps:
            yield step
    finally:
        if hasattr(steps, "aclose"):
            await steps.aclose()


def _close(steps: object) -> None:
    if hasattr(steps, "close"):
        steps.close()
