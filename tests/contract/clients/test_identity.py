"""Unmodified applications of each framework: every call says whose it is, every workflow ends."""

from collections import Counter

import pytest

from tests.contract.router.stack import eventually


def calls(engine):
    """(workflow, agent) of every call."""
    seen = [request.invocation for request in engine.requests]
    return [(i["workflow"].split(":")[-1], i["agent"]) for i in seen]


async def ended(fleet, engine):
    """Every workflow is over, and none was left out."""
    for workflow in {name for name, _ in calls(engine)}:
        fields = await fleet.workflow(workflow)
        if fields.get("state") != "retired":
            return False
    return True


def agents_by_workflow(engine):
    found = {}
    for workflow, agent in calls(engine):
        found.setdefault(workflow, []).append(agent)
    return sorted(sorted(agents) for agents in found.values())


@pytest.mark.parametrize(
    ("how", "workflows"), [("sync", 1), ("async", 3), ("threads", 3), ("interleaved", 2)]
)
async def test_langgraph(router, engine, fleet, application, how, workflows):
    assert await application("langgraph_app", router.url, how) == 0
    assert agents_by_workflow(engine) == [["retriever", "verifier"]] * workflows
    await eventually(lambda: ended(fleet, engine))


async def test_langgraph_subgraphs_belong_to_the_outer_run(router, engine, fleet, application):
    assert await application("langgraph_app", router.url, "nested") == 0
    assert calls(engine) == [("thread-7", "team/retriever"), ("thread-7", "team/verifier")]
    await eventually(lambda: ended(fleet, engine))


@pytest.mark.parametrize("how", ["raise", "interrupt"])
async def test_a_workflow_ends_however_it_is_left(router, engine, fleet, application, how):
    assert await application("langgraph_app", router.url, how) != 0
    assert agents_by_workflow(engine) == [["retriever"]]
    await eventually(lambda: ended(fleet, engine))


@pytest.mark.parametrize("how", ["whole", "stream"])
async def test_autogen(router, engine, fleet, application, how):
    assert await application("autogen_app", router.url, how) == 0
    assert agents_by_workflow(engine) == [["coder", "tester"]] * 2
    await eventually(lambda: ended(fleet, engine))


async def test_an_agent_without_a_team(router, engine, fleet, application):
    assert await application("autogen_app", router.url, "alone") == 0
    assert agents_by_workflow(engine) == [["coder"]]
    await eventually(lambda: ended(fleet, engine))


async def test_crewai(router, engine, fleet, application):
    assert await application("crewai_app", router.url, "threads") == 0
    assert agents_by_workflow(engine) == [["Extractor", "Writer"]] * 2
    await eventually(lambda: ended(fleet, engine))


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
async def test_plain_openai(router, engine, fleet, application, library):
    assert await application("openai_app", router.url, library, framework="openai") == 0
    ((workflow, counts),) = [
        (name, Counter(agent for other, agent in calls(engine) if other == name))
        for name in {name for name, _ in calls(engine)}
    ]
    assert workflow.startswith("wf-")
    assert sorted(counts.values()) == [1, 2]
    await eventually(lambda: ended(fleet, engine))
