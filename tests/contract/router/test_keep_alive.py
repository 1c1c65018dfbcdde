"""Streams whose first token is long in coming are kept alive, and fail as they should."""

import asyncio
import json

import openai
import pytest

from loadgen.events import DONE, EventReader
from router.keep_alive import COMMENT
from tests.contract.router.stack import MESSAGES, eventually, running_router
from tests.contract.router.test_bad_input import check_shape
from tests.fakes.engine import MODEL

EVERY_S = 0.02
BEATS = "pbkv_router_keep_alives_total"
TTFT = "pbkv_router_ttft_seconds_count"


@pytest.fixture
async def router(redis_url, engine):
    """Its only replica answers nothing until it is released."""
    engine.faults.hold = True
    async with running_router(redis_url, keep_alive_s=EVERY_S) as router:
        yield router


@pytest.fixture
async def client(router):
    async with openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key="x", max_retries=0) as it:
        yield it


async def beaten(router, times=2):
    await eventually(lambda: router.metric(BEATS) >= times)


async def chat_released(router, engine, **faults):
    """The answer to a streamed call that waited, then met ``faults``."""
    call = asyncio.create_task(router.chat(stream=True))
    await beaten(router)
    for name, value in faults.items():
        setattr(engine.faults, name, value)
    engine.release()
    return await call


def parted(answer):
    """What follows the comments that an answer begins with, of which there is at least one."""
    content = answer.content
    assert content.startswith(COMMENT)
    while content.startswith(COMMENT):
        content = content.removeprefix(COMMENT)
    return content


def error_of(answer):
    """The error that is all the answer has beside comments."""
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    content = parted(answer)
    assert content.startswith(b"data: ") and content.endswith(b"\n\n")
    return json.loads(content.removeprefix(b"data: "))["error"]


async def test_comments_until_the_first_token(router, engine):
    call = asyncio.create_task(router.chat(stream=True))
    await beaten(router)
    assert router.metric(TTFT) == 0
    engine.release()
    answer = await call
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["x-workflow-id"] == "w"
    # Unknown if the first comment was sent before the workflow was pinned.
    assert answer.headers.get("x-pbkv-replica", "a") == "a"
    assert parted(answer) == b"".join(engine.events({}))
    # The comments are no first token.
    assert router.metric(TTFT) == 1
    waited_s = router.metric("pbkv_router_ttft_seconds_sum")
    assert waited_s >= 2 * EVERY_S


async def test_none_once_tokens_flow(router, engine):
    engine.release()
    engine.faults.hold_after_chunks = 1
    engine._release.clear()
    engine.faults.hold = False
    call = asyncio.create_task(router.chat(stream=True))
    await eventually(lambda: router.metric(TTFT) == 1)
    before = router.metric(BEATS)
    await asyncio.sleep(5 * EVERY_S)
    engine.release()
    await call
    assert router.metric(BEATS) == before


async def test_openai_client(client, router, engine):
    async def talk():
        stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
        return [chunk.choices[0].delta.content async for chunk in stream]

    call = asyncio.create_task(talk())
    await beaten(router)
    engine.release()
    assert "".join(await call) == "wörd 0 wörd 1 wörd 2 "


async def test_other_readers(router, engine):
    body = {"messages": MESSAGES, "stream": True}
    async with router.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        await beaten(router)
        engine.release()
        lines = [line async for line in answer.aiter_lines()]
    assert lines[:2] == [": keep-alive", ""]
    data = EventReader().feed("\n".join([*lines, ""]).encode())
    assert len(data) == 4
    assert data[-1] == DONE


async def test_an_answer_that_is_not_streamed_has_none(router, engine):
    call = asyncio.create_task(router.chat())
    vector = asyncio.create_task(
        router.http.post("/v1/embeddings", json={"input": "x", "stream": True})
    )
    streamed = asyncio.create_task(router.chat(stream=True))
    await beaten(router)
    engine.release()
    assert (await call).json()["object"] == "chat.completion"
    assert (await vector).json()["object"] == "list"
    parted(await streamed)


async def test_off(redis_url, engine):
    engine.faults.hold = True
    async with running_router(redis_url, keep_alive_s=0) as router:
        call = asyncio.create_task(router.chat(stream=True))
        await engine.until(arrived=1)
        engine.release()
        assert (await call).content == b"".join(engine.events({}))


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [(400, "invalid_request_error"), (500, "api_error"), (503, "api_error")],
    )
    async def test_of_the_engine(self, router, engine, status, kind):
        answer = await chat_released(router, engine, status=status, message="too long")
        error = error_of(answer)
        assert error["type"] == kind
        assert ("too long" in error["message"]) == (status != 500)
        assert sum(s.value for s in _broken(router)) == 1

    async def test_before_a_comment_the_status_says_it(self, redis_url, engine):
        engine.faults.status = 400
        async with running_router(redis_url, keep_alive_s=60) as router:
            check_shape(await router.chat(stream=True), 400)

    async def test_openai_client_hears_of_it(self, client, router, engine):
        async def talk():
            stream = await client.chat.completions.create(
                model=MODEL, messages=MESSAGES, stream=True
            )
            return [chunk async for chunk in stream]

        call = asyncio.create_task(talk())
        await beaten(router)
        engine.faults.status = 400
        engine.faults.message = "prompt exceeds the context length"
        engine.release()
        with pytest.raises(openai.APIError, match="context length") as caught:
            await call
        assert caught.value.code == "context_length_exceeded"

    async def test_no_stream(self, router, engine):
        error = error_of(await chat_released(router, engine, whole=True))
        assert error["code"] == "engine_error"

    async def test_no_first_byte_in_time(self, redis_url, engine):
        engine.faults.hold = True
        async with running_router(
            redis_url, keep_alive_s=EVERY_S, first_byte_timeout_s=10 * EVERY_S
        ) as router:
            assert error_of(await router.chat(stream=True))["code"] == "timeout"
            await engine.until(disconnected=1)

    async def test_no_other_replica(self, router, engine):
        error = error_of(await chat_released(router, engine, drop=True))
        assert error["code"] == "no_replica_ready"


async def test_another_replica_takes_over(fleet, router, engine):
    call = asyncio.create_task(router.chat(stream=True))
    await beaten(router)
    second = await fleet.add("b")
    await eventually(lambda: len(router.serving.directory.ready()) == 2)
    engine.faults.drop = True
    engine.release()
    answer = await call
    assert parted(answer) == b"".join(second.events({}))
    # The headers were gone when it moved; the workflow itself says where it is.
    assert answer.headers.get("x-pbkv-replica", "a") == "a"
    assert (await fleet.workflow())["replica"] == "b"
    assert second.requests[0].invocation["step"] == 1
    assert router.metric("pbkv_pin_moves_total", reason="replica_lost") == 1


async def test_a_client_that_leaves_is_noticed(fleet, router, engine):
    call = asyncio.create_task(router.chat(stream=True, headers={"X-Workflow-End": "true"}))
    await beaten(router)
    call.cancel()
    await engine.until(disconnected=1)

    async def ended():
        return await fleet.kinds("a") == ["start", "terminate"]

    await eventually(ended)


def _broken(router):
    name = "pbkv_router_broken_answers_total"
    for family in router.serving.metrics.registry.collect():
        yield from (sample for sample in family.samples if sample.name == name)
