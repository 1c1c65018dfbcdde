"""Which workflow code belongs to: nested, interleaved, threaded, and always ended."""

import asyncio

import pytest

from pbkv.clients import scope
from pbkv.clients.ending import Router


@pytest.fixture
def ends(monkeypatch):
    """The workflows that were ended, in order."""
    found = []
    monkeypatch.setattr(scope, "signal_end", lambda router, workflow_id: found.append(workflow_id))
    return found


def answered():
    """As if a router of ours had answered a call."""
    scope.current_workflow().routers.add(Router("http://router"))
    return scope.current_workflow().workflow_id


def test_an_inner_workflow_belongs_to_the_outer_one(ends):
    with scope.workflow("outer"):
        with scope.workflow("inner") as name:
            assert (name, answered()) == ("outer", "outer")
        assert ends == []
    assert ends == ["outer"]
    assert scope.current_workflow() is None


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt, asyncio.CancelledError])
def test_it_ends_however_it_is_left(ends, problem):
    with pytest.raises(problem), scope.workflow("w"):
        answered()
        raise problem
    assert ends == ["w"]


def test_no_router_no_end(ends):
    with scope.workflow("w"):
        pass
    assert ends == []


def test_interleaved_generators_are_kept_apart(ends):
    def steps():
        for _ in range(3):
            yield answered()

    one, two = scope.each_step(steps(), "one"), scope.each_step(steps(), "two")
    for _ in range(2):
        assert (next(one), next(two)) == ("one", "two")
        assert scope.current_workflow() is None
    assert list(two) == ["two"]
    assert ends == ["two"]
    one.close()
    assert ends == ["two", "one"]


async def test_interleaved_asynchronous_generators_are_kept_apart(ends):
    closed = []

    async def steps():
        try:
            for _ in range(3):
                await asyncio.sleep(0)
                yield answered()
        finally:
            closed.append(scope.current_agent())

    one = scope.each_async_step(steps(), "one")
    two = scope.each_async_step(steps(), "two")
    assert (await anext(one), await anext(two), await anext(one)) == ("one", "two", "one")
    assert scope.current_workflow() is None
    assert [step async for step in two] == ["two", "two"]
    await one.aclose()
    assert ends == ["two", "one"]
    assert len(closed) == 2


async def test_an_agent_holds_for_its_own_steps_only():
    async def steps():
        yield scope.current_agent()
        yield scope.current_agent()

    with scope.agent("outer"):
        found = []
        async for name in scope.each_agent_step(steps(), "inner"):
            found.append((name, scope.current_agent()))
    assert found == [("inner", "outer")] * 2
    assert scope.current_agent() == ""


def test_a_call_after_the_end_is_ended_at_once(ends):
    with scope.workflow("w"):
        late = scope.current_workflow()
        answered()
    late.answered_by(Router("http://router"))
    assert ends == ["w", "w"]
