"""Pins, events and the workflows API."""

import asyncio

import pytest

from pbkv.events import WorkflowEvent
from tests.contract.router.stack import (
    eventually,
    running_router,
)
from tests.fakes.engine import MODEL


async def known(router, count):
    await eventually(lambda: len(router.serving.directory.ready()) == count)


async def test_a_pin_holds_and_every_call_has_a_new_seq(fleet, router, engine):
    await fleet.add("b")
    await known(router, 2)
    replicas = {(await router.chat()).headers["x-pbkv-replica"] for _ in range(6)}
    assert len(replicas) == 1
    invocations = [request.invocation for request in fleet.requests()]
    assert [i["step"] for i in invocations] == [1, 2, 3, 4, 5, 6]
    seqs = [i["seq"] for i in invocations]
    assert seqs == sorted(set(seqs))
    name = replicas.pop()
    events = await fleet.events(name)
    assert [(e["kind"], e["workflow"]) for e in events] == [("start", "default:w")]
    event = WorkflowEvent.from_fields(events[0])
    assert event.seq == seqs[0]
    workflow = await fleet.workflow()
    assert (workflow["replica"], workflow["state"], workflow["epoch"]) == (name, "active", "1")
    assert await fleet.client.pttl("pbkv:workflow:default:w") > 0


async def test_new_workflows_are_spread_evenly(fleet, router, engine):
    await fleet.add("b")
    await known(router, 2)
    answers = await asyncio.gather(*[router.chat(f"w{i}") for i in range(40)])
    counts = [sum(a.headers["x-pbkv-replica"] == name for a in answers) for name in "ab"]
    assert min(counts) >= 15
    await eventually(lambda: [c.pinned for c in router.serving.directory.all()] == counts)
    shown = (await router.http.get("/v1/replicas")).json()["data"]
    assert [replica["pinned_workflows"] for replica in shown] == counts


async def test_ids_are_compared_whole(fleet, router):
    await router.chat("session-1", headers={"X-Workflow-End": "true"})
    await router.chat("session-12")
    assert (await fleet.workflow("session-1"))["state"] == "retired"
    assert (await fleet.workflow("session-12"))["state"] == "active"


async def test_agents_are_remembered(router):
    for agent in ("planner", "coder", "planner"):
        await router.chat(headers={"X-Agent-Name": agent})
    view = (await router.http.get("/v1/workflows/w")).json()
    assert (view["agents"], view["agent"], view["step"]) == (["planner", "coder"], "planner", 3)


class TestDraining:
    async def test_keeps_its_own_and_gets_no_new_ones(self, fleet, router, engine):
        await router.chat("old")
        await router.chat("ended", headers={"X-Workflow-End": "true"})
        await fleet.add("b")
        await fleet.set("a", state="draining")
        # Whatever the router has seen of that already.
        assert (await router.chat("old")).headers["x-pbkv-replica"] == "a"
        for i in range(4):
            assert (await router.chat(f"new{i}")).headers["x-pbkv-replica"] == "b"
        assert (await router.chat("ended")).headers["x-pbkv-replica"] == "b"
        await known(router, 1)
        assert (await router.http.get("/ready")).json() == {"status": "ready", "replicas": 1}

    async def test_alone_it_still_serves_its_own(self, fleet, router, engine):
        await router.chat("old")
        await fleet.set("a", state="draining")
        await known(router, 0)
        assert (await router.chat("old")).status_code == 200
        assert (await router.chat("new")).status_code == 503


class TestMoves:
    async def test_entry_gone(self, fleet, router, engine):
        await router.chat()
        await fleet.add("b")
        await fleet.remove("a")
        await eventually(lambda: router.serving.directory.get("a") is None)
        assert (await router.chat()).headers["x-pbkv-replica"] == "b"
        workflow = await fleet.workflow()
        assert (workflow["replica"], workflow["epoch"], workflow["step"]) == ("b", "2", "2")
        assert router.metric("pbkv_pin_moves_total", reason="replica_expired") == 1
        assert await fleet.kinds("b") == ["start"]
        # For the replica that went, the workflow is over, should it still be there.
        assert await fleet.kinds("a") == ["start", "terminate"]

    async def test_entry_expires(self, fleet, router, engine):
        await router.chat()
        await fleet.add("b")
        fleet.entries.pop("a")
        await fleet.client.pexpire("pbkv:replica:a", 1)
        await eventually(lambda: router.serving.directory.get("a") is None)
        assert (await router.chat()).headers["x-pbkv-replica"] == "b"

    async def test_a_restarted_replica_keeps_its_workflows(self, fleet, router, engine):
        await router.chat()
        await fleet.add("b")
        await known(router, 2)
        await fleet.set("a", epoch=2)
        assert (await router.chat()).headers["x-pbkv-replica"] == "a"

    async def test_a_replica_new_to_one_router_is_no_reason(self, fleet, router, redis_url, engine):
        """Another router pinned to a replica that this one has not seen yet."""
        await known(router, 1)
        async with running_router(redis_url, refresh_s=30) as late:
            await fleet.add("b")
            await fleet.set("a", state="draining")
            await eventually(
                lambda: [c.replica.id for c in router.serving.directory.ready()] == ["b"]
            )
            assert (await router.chat()).headers["x-pbkv-replica"] == "b"
            assert late.serving.directory.get("b") is None
            assert (await late.chat()).headers["x-pbkv-replica"] == "b"
        assert (await fleet.workflow())["epoch"] == "1"


class TestEnd:
    @pytest.mark.parametrize("stream", [False, True])
    async def test_with_the_last_call(self, fleet, router, engine, stream):
        await router.chat()
        await router.chat(headers={"X-Workflow-End": "true"}, stream=stream)
        assert engine.requests[1].invocation["end"] is True
        events = await fleet.events("a")
        assert [e["kind"] for e in events] == ["start", "terminate"]
        assert int(events[1]["seq"]) > engine.requests[1].invocation["seq"]
        assert (await fleet.workflow())["state"] == "retired"
        assert await fleet.client.zcard("pbkv:pins:a") == 0

    async def test_delete_twice(self, fleet, router):
        await router.chat()
        for _ in range(2):
            assert (await router.http.delete("/v1/workflows/w")).status_code == 204
        assert await fleet.kinds("a") == ["start", "terminate"]
        assert (await router.http.get("/v1/workflows/w")).json()["state"] == "retired"

    async def test_delete_of_an_unknown_one(self, router):
        assert (await router.http.delete("/v1/workflows/unknown")).status_code == 204
        assert (await router.http.get("/v1/workflows/unknown")).status_code == 404

    async def test_a_later_call_revives(self, fleet, router, engine):
        await router.chat()
        await router.http.delete("/v1/workflows/w")
        await router.chat()
        events = await fleet.events("a")
        assert [e["kind"] for e in events] == ["start", "terminate", "start"]
        seqs = [int(e["seq"]) for e in events]
        assert seqs == sorted(set(seqs))
        assert (await fleet.workflow())["state"] == "active"

    async def test_a_call_issued_after_the_last_one_keeps_it_alive(self, fleet, router, engine):
        engine.faults.hold = True
        last = asyncio.create_task(router.chat(headers={"X-Workflow-End": "true"}))
        await engine.until(arrived=1)
        later = asyncio.create_task(router.chat())
        await engine.until(arrived=2)
        engine.release()
        await asyncio.gather(last, later)
        assert (await fleet.workflow())["state"] == "active"
        assert await fleet.kinds("a") == ["start"]

    async def test_a_refused_last_call_ends_too(self, fleet, router, engine):
        engine.faults.status = 400
        assert (await router.chat(headers={"X-Workflow-End": "true"})).status_code == 400
        assert await fleet.kinds("a") == ["start", "terminate"]

    async def test_silence_forgets(self, fleet, redis_url, engine):
        async with running_router(redis_url, idle_timeout_s=0.5) as router:
            await router.chat()

            async def gone():
                return (await router.http.get("/v1/workflows/w")).status_code == 404

            await eventually(gone)
            await eventually(lambda: [c.pinned for c in router.serving.directory.all()] == [0])
            await router.chat()
            view = (await router.http.get("/v1/workflows/w")).json()
            assert (view["step"], view["epoch"]) == (1, 1)


async def all_counted(router):
    views = (await router.http.get("/v1/workflows")).json()["data"]
    return all(view["prompt_tokens"] > 0 for view in views)


class TestWorkflowsApi:
    async def test_start(self, fleet, router):
        answer = await router.http.post(
            "/v1/workflows", json={"id": "w", "metadata": {"team": "x"}}
        )
        assert answer.status_code == 201
        assert answer.json() == {"id": "w", "replica": "a", "state": "active"}
        assert await fleet.kinds("a") == ["start"]
        view = (await router.http.get("/v1/workflows/w")).json()
        assert (view["step"], view["metadata"], view["agents"]) == (0, {"team": "x"}, [])
        await router.chat()
        assert (await router.http.get("/v1/workflows/w")).json()["metadata"] == {"team": "x"}

    async def test_start_is_idempotent(self, fleet, router):
        answers = [await router.http.post("/v1/workflows", json={"id": "w"}) for _ in range(2)]
        assert [a.status_code for a in answers] == [201, 201]
        assert answers[0].json() == answers[1].json()
        assert await fleet.kinds("a") == ["start"]

    async def test_an_id_is_made(self, router):
        ids = {(await router.http.post("/v1/workflows")).json()["id"] for _ in range(2)}
        assert len(ids) == 2
        for name in ids:
            assert (await router.http.get(f"/v1/workflows/{name}")).status_code == 200

    @pytest.mark.parametrize(
        "body",
        [
            {"id": 7},
            {"id": ""},
            {"id": "x" * 257},
            {"id": "w", "name": "x"},
            {"metadata": []},
            {"metadata": {"x": "y" * 5000}},
            [],
        ],
    )
    async def test_bad_starts(self, fleet, router, body):
        answer = await router.http.post("/v1/workflows", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert await fleet.kinds("a") == []

    async def test_list(self, router):
        for i in range(3):
            await router.chat(f"w{i}")
        # What an answer used is counted behind it, and counts as a sign of life.
        await eventually(lambda: all_counted(router))
        await router.http.delete("/v1/workflows/w1")
        listed = (await router.http.get("/v1/workflows", params={"limit": 2})).json()
        assert [view["id"] for view in listed["data"]] == ["w1", "w2"]
        assert listed["total"] == 3
        active = (await router.http.get("/v1/workflows", params={"state": "active"})).json()
        assert [view["id"] for view in active["data"]] == ["w2", "w0"]


class TestSeveralModels:
    async def test_each_model_has_its_pin(self, fleet, router, engine):
        await fleet.add("x", model="other")
        await fleet.add("y", model="other")
        await known(router, 3)
        models = (await router.http.get("/v1/models")).json()["data"]
        assert [model["id"] for model in models] == [MODEL, "other"]
        others = set()
        for _ in range(3):
            assert (await router.chat()).headers["x-pbkv-replica"] == "a"
            others.add((await router.chat(model="other")).headers["x-pbkv-replica"])
        assert len(others) == 1 and others < {"x", "y"}
        assert (await fleet.workflow())["step"] == "6"
        await router.http.delete("/v1/workflows/w")
        assert await fleet.kinds("a") == ["start", "terminate"]
        assert await fleet.kinds(others.pop()) == ["start", "terminate"]

    async def test_a_model_must_be_named(self, fleet, router):
        await fleet.add("x", model="other")
        await known(router, 2)
        answer = await router.chat(model=None)
        assert answer.status_code == 400
        assert "other" in answer.json()["error"]["message"]


async def test_a_malformed_entry_is_left_out(fleet, router, caplog):
    await fleet.client.hset("pbkv:replica:odd", mapping={"url": "nonsense", "state": "ready"})
    await eventually(lambda: "replica odd is left out" in caplog.text)
    assert [c.replica.id for c in router.serving.directory.all()] == ["a"]
