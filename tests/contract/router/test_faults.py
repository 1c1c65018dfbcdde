"""Engines that die, hang or vanish, and clients that leave."""

import asyncio
import json

import httpx
import pytest

from tests.contract.router.stack import (
    MESSAGES,
    end_process,
    engine_process,
    eventually,
    running_router,
)
from tests.contract.router.test_bad_input import check_shape
from tests.fakes.engine import MODEL

CHAT = "/v1/chat/completions"
END = {"X-Workflow-End": "true"}


@pytest.fixture
async def second(fleet, router, engine):
    """Replica "b", beside "a" to which workflow "w" is pinned already."""
    await router.chat()
    engine.requests.clear()
    second = await fleet.add("b")
    await eventually(lambda: len(router.serving.directory.ready()) == 2)
    return second


async def control(url, **wanted):
    async with httpx.AsyncClient() as http:
        await http.post(f"{url}/_control", json=wanted)


class TestNoFirstByte:
    @pytest.mark.parametrize("stream", [False, True])
    async def test_refused(self, fleet, router, engine, second, stream):
        await engine.stop()
        answer = await router.chat(stream=stream, headers=END)
        assert (answer.status_code, answer.headers["x-pbkv-replica"]) == (200, "b")
        # One call, one step, one end.
        assert second.requests[0].invocation["step"] == 2
        assert await fleet.kinds("b") == ["start", "terminate"]
        workflow = await fleet.workflow()
        assert (workflow["epoch"], workflow["step"], workflow["state"]) == ("2", "2", "retired")
        assert router.metric("pbkv_pin_moves_total", reason="replica_lost") == 1

    @pytest.mark.parametrize("stream", [False, True])
    async def test_dropped(self, router, engine, second, stream):
        engine.faults.drop = True
        answer = await router.chat(stream=stream)
        assert (answer.status_code, answer.headers["x-pbkv-replica"]) == (200, "b")

    async def test_a_second_loss_is_the_last(self, router, engine, second):
        engine.faults.drop = second.faults.drop = True
        error = check_shape(await router.chat(), 502)
        assert error["code"] == "replica_lost"

    async def test_no_other_replica(self, router, engine):
        await router.chat()
        await engine.stop()
        answer = await router.chat()
        assert check_shape(answer, 503)["code"] == "no_replica_ready"
        assert answer.headers["retry-after"] == "1"

    async def test_it_is_tried_again_after_a_while(self, router, engine):
        await router.chat()
        port = int(engine.url.rpartition(":")[2])
        await engine.stop()
        assert (await router.chat()).status_code == 503
        assert not (await router.http.get("/v1/replicas")).json()["data"][0]["reachable"]
        await engine.start(port)
        await eventually(router.serving.directory.ready)
        assert (await router.chat()).status_code == 200

    async def test_kill_9(self, fleet, router, engine):
        async with engine_process() as (process, url):
            await fleet.set("a", state="draining")
            await fleet.add("p", url)
            await eventually(lambda: router.serving.directory.get("p") is not None)
            await eventually(lambda: len(router.serving.directory.ready()) == 1)
            await router.chat()
            await fleet.set("a", state="ready")
            await eventually(lambda: len(router.serving.directory.ready()) == 2)
            await control(url, hold=True)
            calls = [asyncio.create_task(router.chat(stream=i % 2 == 0)) for i in range(4)]
            async with httpx.AsyncClient() as http:
                await http.get(f"{url}/_control", params={"arrived": 5})
            end_process(process)
            answers = await asyncio.gather(*calls)
        assert [a.status_code for a in answers] == [200] * 4
        assert {a.headers["x-pbkv-replica"] for a in answers} == {"a"}
        assert (await fleet.workflow())["epoch"] == "2"
        assert (await fleet.workflow())["step"] == "5"
        # The next call does not try the dead one again.
        assert (await router.chat()).headers["x-pbkv-replica"] == "a"

    async def test_a_closed_idle_connection_is_no_loss(self, fleet, router, engine, second):
        """The engine came back on its port: the pooled connections of before are dead."""
        port = int(engine.url.rpartition(":")[2])
        await engine.stop()
        await engine.start(port)
        answer = await router.chat()
        assert (answer.status_code, answer.headers["x-pbkv-replica"]) == (200, "a")


class TestAfterTheFirstByte:
    @staticmethod
    def last_event(answer):
        assert answer.status_code == 200
        assert answer.content.endswith(b"\n\n")
        events = answer.content.split(b"\n\n")[:-1]
        return json.loads(events[-1].removeprefix(b"data: ")), events[:-1]

    async def test_a_stream_ends_with_an_error_event(self, fleet, router, engine, second):
        engine.faults.die_after_chunks = 2
        answer = await router.chat(stream=True, headers=END)
        last, before = self.last_event(answer)
        assert last["error"]["code"] == "replica_lost"
        assert b"\n\n".join(before) + b"\n\n" == b"".join(engine.events({})[:2])
        assert second.requests == []
        assert await fleet.kinds("a") == ["start", "terminate"]
        assert router.metric("pbkv_router_broken_answers_total", reason="replica_lost") == 1

    async def test_a_torn_event_is_not_shown(self, router, engine, second):
        engine.faults.die_after_chunks = 2
        engine.faults.split_bytes = 5
        answer = await router.chat(stream=True)
        assert self.last_event(answer)[0]["error"]["code"] == "replica_lost"

    async def test_a_whole_answer_becomes_a_502(self, router, engine, second):
        engine.faults.cut_body = True
        answer = await router.chat()
        assert check_shape(answer, 502)["code"] == "replica_lost"
        assert answer.headers["x-pbkv-replica"] == "a"
        assert second.requests == []

    async def test_kill_9(self, fleet, router, engine):
        async with engine_process() as (process, url):
            await control(url, hold_after_chunks=1)
            await fleet.remove("a")
            await fleet.add("p", url)
            await eventually(
                lambda: [c.replica.id for c in router.serving.directory.ready()] == ["p"]
            )
            async with router.http.stream(
                "POST", CHAT, json={"messages": MESSAGES, "stream": True}
            ) as answer:
                chunks = answer.aiter_bytes()
                received = await anext(chunks)
                end_process(process)
                received += b"".join([chunk async for chunk in chunks])
        last = received.split(b"\n\n")[-2]
        assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "replica_lost"

    async def test_openai_client_hears_of_it(self, router, engine):
        import openai

        engine.faults.die_after_chunks = 1
        client = openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key="x", max_retries=0)
        async with client:
            stream = await client.chat.completions.create(
                model=MODEL, messages=MESSAGES, stream=True
            )
            with pytest.raises(openai.APIError, match="went away"):
                async for _ in stream:
                    pass


class TestTimeouts:
    async def test_no_first_byte_in_time(self, fleet, redis_url, engine):
        engine.faults.hold = True
        async with running_router(redis_url, first_byte_timeout_s=0.2) as router:
            error = check_shape(await router.chat(stream=True, headers=END), 504)
            assert error["code"] == "timeout"
            await engine.until(disconnected=1)
        assert len(engine.requests) == 1
        assert await fleet.kinds("a") == ["start", "terminate"]

    async def test_whole_answer_not_in_time(self, redis_url, engine):
        engine.faults.hold = True
        async with running_router(redis_url, total_timeout_s=0.2) as router:
            check_shape(await router.chat(), 504)
            await engine.until(disconnected=1)

    async def test_stream_not_over_in_time(self, redis_url, engine):
        engine.faults.hold_after_chunks = 1
        async with running_router(redis_url, total_timeout_s=1.5) as router:
            answer = await router.chat(stream=True)
            last, before = TestAfterTheFirstByte.last_event(answer)
            assert last["error"]["code"] == "timeout"
            assert len(before) == 1
            await engine.until(disconnected=1)


class TestClientLeaves:
    async def test_before_the_first_byte(self, fleet, router, engine):
        engine.faults.hold = True
        for stream in (False, True):
            call = asyncio.create_task(router.chat(stream=stream, headers=END))
            await engine.until(arrived=1 + stream)
            call.cancel()
            await engine.until(disconnected=1 + stream)

        async def ended():
            return (await fleet.workflow())["state"] == "retired"

        await eventually(ended)
        # Twice the same workflow ended, twice it had been started.
        kinds = await fleet.kinds("a")
        assert kinds[-1] == "terminate"
        left = router.metric("pbkv_router_requests_total", route=CHAT, status="499")
        assert left == 2

    async def test_in_the_middle_of_a_stream(self, fleet, router, engine):
        engine.faults.hold_after_chunks = 1
        async with router.http.stream(
            "POST",
            CHAT,
            json={"messages": MESSAGES, "stream": True},
            headers={"X-Workflow-ID": "w", **END},
        ) as answer:
            await anext(answer.aiter_bytes())
        await engine.until(disconnected=1)

        async def ended():
            return await fleet.kinds("a") == ["start", "terminate"]

        await eventually(ended)

    async def test_other_requests_go_on(self, router, engine):
        engine.faults.hold = True
        leaving = asyncio.create_task(router.chat("one"))
        staying = asyncio.create_task(router.chat("two"))
        await engine.until(arrived=2)
        leaving.cancel()
        await engine.until(disconnected=1)
        engine.release()
        assert (await staying).status_code == 200
        assert engine.disconnected == 1
