"""Routers write what they served to the stream of traces, and nobody waits for it."""

import asyncio
import time

import pytest

from pbkv.keys import TRACES_KEY
from pbkv.trace import RecordKind, TracedCall, workflows_of
from pbkv.trace.wire import from_fields
from tests.contract.router.stack import MESSAGES, eventually, restart, running_fleet, running_router
from tests.redis_server import RedisServer


async def traces(fleet):
    return [from_fields(fields) for _, fields in await fleet.client.xrange(TRACES_KEY)]


async def written(fleet, count):
    async def enough():
        found = await traces(fleet)
        return found if len(found) >= count else None

    return await eventually(enough)


@pytest.fixture
def mortal(tmp_path):
    """A Redis of this test alone, to be killed."""
    server = RedisServer(tmp_path / "redis")
    server.folder.mkdir()
    server.start()
    yield server
    server.kill()


async def test_a_call_is_traced_with_all_that_is_known_of_it(router, engine, fleet):
    engine.faults.cached_tokens = 8
    before_s = time.time()
    headers = {"X-Agent-Name": "Coder", "X-Application-Name": "demo", "X-Workflow-End": "true"}
    await router.chat(headers=headers)

    (record,) = await written(fleet, 1)

    assert (record.kind, record.tenant, record.workflow) == (RecordKind.CALL, "default", "w")
    assert (record.agent, record.application, record.step, record.end) == ("Coder", "demo", 1, True)
    assert (record.model, record.replica, record.request_id) == ("fake-model", "a", "answer-1")
    assert (record.prompt_tokens, record.cached_tokens, record.completion_tokens) == (11, 8, 3)
    assert (record.finish_reason, record.error) == ("stop", "")
    assert record.seq == engine.requests[0].invocation["seq"]
    assert before_s <= record.sent_at_s <= record.finished_at_s <= time.time()
    assert record.first_token_at_s is None
    assert record.prompt is None
    entries = await fleet.client.xrange(TRACES_KEY)
    assert MESSAGES[0]["content"] not in str(entries)


async def test_a_stream_is_traced_with_its_first_token(router, engine, fleet):
    engine.faults.split_bytes = 7
    await router.chat(stream=True)

    (record,) = await written(fleet, 1)

    assert record.sent_at_s <= record.first_token_at_s <= record.finished_at_s
    assert (record.prompt_tokens, record.completion_tokens) == (11, 3)
    assert (record.finish_reason, record.request_id) == ("stop", "answer-1")


@pytest.mark.parametrize(
    ("faults", "stream", "error"),
    [
        ({"status": 400}, False, "invalid_request_error"),
        ({"status": 500}, False, "engine_error"),
        ({"die_after_chunks": 1}, True, "replica_lost"),
        ({"cut_body": True}, False, "replica_lost"),
    ],
)
async def test_what_went_wrong_is_traced(router, engine, fleet, faults, stream, error):
    for name, value in faults.items():
        setattr(engine.faults, name, value)
    await router.chat(stream=stream)

    (record,) = await written(fleet, 1)

    assert record.error == error
    assert record.step == 1


async def test_a_client_that_left_is_traced(router, engine, fleet):
    engine.faults.hold = True
    call = asyncio.create_task(router.chat())
    await engine.until(arrived=1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    (record,) = await written(fleet, 1)

    assert record.error == "client_left"


async def test_a_client_that_left_with_the_whole_answer_is_no_error(router, engine, fleet):
    # Clients close at the last event they care for, before the connection ends.
    engine.faults.hold_after_chunks = engine.faults.chunks + 1
    body = {"messages": MESSAGES, "stream": True}
    async with router.http.stream(
        "POST", "/v1/chat/completions", json=body, headers={"X-Workflow-ID": "w"}
    ) as answer:
        async for line in answer.aiter_lines():
            if '"finish_reason": "stop"' in line or '"finish_reason":"stop"' in line:
                break
    await engine.until(disconnected=1)

    (record,) = await written(fleet, 1)

    assert (record.error, record.finish_reason, record.prompt_tokens) == ("", "stop", 11)


async def test_a_request_that_reached_no_replica_is_no_call(router, fleet):
    answer = await router.http.post("/v1/chat/completions", json={"model": "fake-model"})
    assert answer.status_code == 400
    await router.chat("later")

    (record,) = await written(fleet, 1)

    assert record.workflow == "later"


async def test_workflows_can_be_put_together(router, fleet):
    for workflow in ("one", "two"):
        for agent in ("Planner", "Coder"):
            await router.chat(workflow, headers={"X-Agent-Name": agent})
    await router.http.delete("/v1/workflows/one")
    await router.http.delete("/v1/workflows/one")
    await router.chat("two", headers={"X-Agent-Name": "Tester", "X-Workflow-End": "true"})

    # The second DELETE found nothing to end, or ended what had ended: no other workflow.
    found = workflows_of(map(TracedCall, await written(fleet, 6)))

    assert [(w.workflow_id, w.agents, w.ended) for w in found] == [
        ("default:one", ("Planner", "Coder"), True),
        ("default:two", ("Planner", "Coder", "Tester"), True),
    ]


async def test_the_prompt_is_traced_if_a_setting_asks_for_it(redis_url, fleet, engine):
    async with running_router(redis_url, trace_prompts=True) as router:
        await router.chat()
        (record,) = await written(fleet, 1)

    assert record.prompt == '[{"role":"user","content":"hello"}]'


async def test_traces_can_be_turned_off(redis_url, fleet, engine):
    async with running_router(redis_url, traces=False) as router:
        await router.chat()
    assert await traces(fleet) == []


async def test_the_stream_is_trimmed(redis_url, fleet, engine):
    async with running_router(redis_url, max_stream_traces=1) as router:
        # Trimming is by whole nodes of the stream, of 100 entries by default.
        await fleet.client.config_set("stream-node-max-entries", 2)
        for _ in range(8):
            await router.chat()
            await eventually(lambda: router.metric("pbkv_router_traces_queued") == 0)
    await fleet.client.config_set("stream-node-max-entries", 100)
    assert await fleet.client.xlen(TRACES_KEY) <= 3


async def test_what_was_served_while_redis_was_away_is_written_after_it(mortal):
    async with running_fleet(mortal.url) as fleet:
        await fleet.add("a")
        async with running_router(mortal.url) as router:
            await router.chat("w")
            await written(fleet, 1)
            mortal.kill()
            answers = [await router.chat("w") for _ in range(4)]
            assert {answer.status_code for answer in answers} == {200}
            assert router.metric("pbkv_router_traces_queued") >= 3
            await restart(mortal, keep_data=True)

            found = await written(fleet, 5)

            assert sorted({record.step for record in found}) == [1, 2, 3, 4, 5]
            assert router.metric("pbkv_router_traces_dropped_total") == 0


async def test_more_than_may_wait_is_dropped_oldest_first_and_counted(mortal):
    async with running_fleet(mortal.url) as fleet:
        await fleet.add("a")
        async with running_router(mortal.url, max_queued_traces=2) as router:
            await router.chat("w")
            await written(fleet, 1)
            mortal.kill()
            for _ in range(5):
                assert (await router.chat("w")).status_code == 200
            await eventually(lambda: router.metric("pbkv_router_traces_dropped_total") == 3)
            await restart(mortal, keep_data=True)

            assert [record.step for record in await written(fleet, 3)] == [1, 5, 6]


async def test_an_exit_writes_what_waits_and_counts_what_is_lost(mortal):
    async with running_fleet(mortal.url) as fleet:
        await fleet.add("a")
        async with running_router(mortal.url) as router:
            await router.chat("w")
        assert len(await traces(fleet)) == 1
        async with running_router(mortal.url) as router:
            await router.chat("w")
            await written(fleet, 2)
            mortal.kill()
            await router.chat("w")
        assert router.metric("pbkv_router_traces_dropped_total") == 1


async def test_a_key_of_another_kind_costs_the_traces_and_nothing_else(router, fleet):
    await fleet.client.set(TRACES_KEY, "someone else's")
    assert (await router.chat()).status_code == 200
    await eventually(lambda: router.metric("pbkv_router_traces_dropped_total") == 1)
    assert router.serving.link.available


async def test_two_routers_write_one_stream(redis_url, fleet, engine):
    async with running_router(redis_url) as one, running_router(redis_url) as two:
        await asyncio.gather(*[r.chat(f"w{i}") for i in range(20) for r in (one, two)])
        found = await written(fleet, 40)
    assert {record.workflow for record in found} == {f"w{i}" for i in range(20)}
    assert len(workflows_of(map(TracedCall, found))) == 20
