"""Unmodified applications of each framework: every call says whose it is, every workflow ends."""

from collections import Counter

from tests.contract.router.stack import eventually


def calls(engine):
    """(workflow, agent) of every call."""
    seen = [request.invocation for request in engine.requests]
    return [(i["workflow"].split(":")[-1], i["agent"]) for i in seen]


async def ended(fleet, engine):
    """Every workflow is over, and none was left out."""
    for workflow in {name for name, _ in calls(engine) if not name.startswith("anon-")}:
        fields = await fleet.workflow(workflow)
        if fields.get("state") != "retired":
            return False
    return True


def agents_by_workflow(engine):
    found = {}
    for workflow, agent in calls(engine):
        found.setdefault(workflow, []).append(agent)
    return sorted(sorted(agents) for agents in found.values())


async def test_langgraph(router, engine, fleet, application):
    assert await application("langgraph_app", router.url, "all") == 0
    seen = dict.fromkeys(name for name, _ in calls(engine))
    nested = [agent for name, agent in calls(engine) if name == "thread-7"]
    assert nested == ["team/retriever", "team/verifier"]
    # Alone, in tasks, in threads, interleaved; a node that calls from a pool; the one that failed;
    # the call outside of any.
    pooled = ["retriever", "retriever", "verifier"]
    assert agents_by_workflow(engine) == sorted(
        [["retriever", "verifier"]] * (1 + 3 + 3 + 2) + [nested, pooled, ["retriever"], ["default"]]
    )
    assert sum(name.startswith("anon-") for name in seen) == 1
    await eventually(lambda: ended(fleet, engine))


async def test_a_workflow_ends_with_ctrl_c(router, engine, fleet, application):
    assert await application("langgraph_app", router.url, "interrupt") != 0
    assert agents_by_workflow(engine) == [["retriever"]]
    await eventually(lambda: ended(fleet, engine))


async def test_autogen(router, engine, fleet, application):
    assert await application("autogen_app", router.url) == 0
    found = agents_by_workflow(engine)
    assert found.count(["coder", "tester"]) == 2
    assert ["soloist"] in found
    # The fake names no speaker, so the selector asks several times before it takes one.
    (chosen,) = [agents for agents in found if "selector" in agents]
    assert set(chosen) - {"selector"} <= {"coder", "tester"}
    assert len(found) == 4
    await eventually(lambda: ended(fleet, engine))


async def test_crewai(router, engine, fleet, application):
    assert await application("crewai_app", router.url) == 0
    assert agents_by_workflow(engine) == [["Extractor", "Writer"]] * 3
    await eventually(lambda: ended(fleet, engine))


async def test_plain_openai(router, engine, fleet, application):
    assert await application("openai_app", router.url, framework="openai") == 0
    (workflow,) = {name for name, _ in calls(engine)}
    assert workflow.startswith("wf-")
    # Told apart by their system messages.
    assert sorted(Counter(agent for _, agent in calls(engine)).values()) == [2, 4]
    await eventually(lambda: ended(fleet, engine))
