"""Requests and answers pass unchanged, apart from what the contract says."""

import json

import httpx
import pytest

from tests.contract.router.stack import MESSAGES, eventually
from tests.fakes.engine import MODEL

PATHS = ["/v1/chat/completions", "/v1/completions"]


def asked(**body):
    return {"model": MODEL, "messages": MESSAGES, "prompt": "p", **body}


async def test_body_passes_with_every_field(router, engine):
    body = asked(temperature=0.25, unknown={"a": [1, None, "ü"]}, custom_params={"mine": 1})
    await router.http.post(
        PATHS[0],
        json={**body, "workflow": {"id": "w", "agent": "planner"}},
    )
    received = engine.requests[0].json
    invocation = received["custom_params"].pop("pbkv")
    assert received == body
    assert invocation["workflow"] == "default:w"
    assert (invocation["agent"], invocation["step"], invocation["end"]) == ("planner", 1, False)


async def test_headers_pass_except_hop_by_hop(router, engine):
    headers = {"X-Mine": "1", "Authorization": "Bearer k", "Accept-Encoding": "gzip", "TE": "gzip"}
    await router.chat(headers=headers)
    received = engine.requests[0].headers
    assert (received["X-Mine"], received["Authorization"]) == ("1", "Bearer k")
    assert received["Accept-Encoding"] == "identity"
    assert "TE" not in received


@pytest.mark.parametrize("path", [*PATHS, "/v1/embeddings", "/v1/responses"])
async def test_whole_answers_are_byte_identical(router, engine, path):
    through = await router.http.post(path, json=asked(), headers={"X-Workflow-ID": "w"})
    async with httpx.AsyncClient() as http:
        direct = await http.post(engine.url + path, json=asked())
    assert through.content == direct.content
    assert through.headers["content-type"] == direct.headers["content-type"]
    assert through.headers["x-workflow-id"] == "w"
    assert through.headers["x-pbkv-replica"] == "a"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("split_bytes", [0, 1, 7])
async def test_streams_are_byte_identical_without_the_usage(router, engine, path, split_bytes):
    engine.faults.split_bytes = split_bytes
    engine.faults.cached_tokens = 8
    answer = await router.http.post(path, json=asked(stream=True), headers={"X-Workflow-ID": "w"})
    assert answer.content == b"".join(engine.events({}))
    assert engine.requests[0].json["stream_options"] == {"include_usage": True}
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (answer.headers["x-workflow-id"], answer.headers["x-pbkv-replica"]) == ("w", "a")


async def test_streams_keep_the_usage_that_was_asked_for(router, engine):
    options = {"include_usage": True}
    answer = await router.chat(stream=True, stream_options=options)
    assert answer.content == b"".join(engine.events({"stream_options": options}))


@pytest.mark.parametrize("stream", [False, True])
async def test_usage_is_counted(router, engine, stream):
    engine.faults.cached_tokens = 8
    for _ in range(2):
        await router.chat(stream=stream)

    async def counted():
        view = (await router.http.get("/v1/workflows/w")).json()
        return view if view["prompt_tokens"] == 22 else None

    view = await eventually(counted)
    assert (view["cached_tokens"], view["completion_tokens"], view["step"]) == (16, 6, 2)


async def test_first_events_do_not_wait_for_the_last(router, engine):
    engine.faults.hold_after_chunks = 1
    async with router.http.stream("POST", PATHS[0], json=asked(stream=True)) as answer:
        chunks = answer.aiter_bytes()
        assert await anext(chunks) == engine.events({})[0]
        engine.release()
        rest = b"".join([chunk async for chunk in chunks])
    assert rest == b"".join(engine.events({})[1:])


async def test_a_workflow_id_may_be_any_text(router, engine):
    answer = await router.http.post(
        PATHS[0], json=asked(), headers={b"X-Workflow-ID": "工作/1".encode()}
    )
    assert dict(answer.headers.raw)[b"x-workflow-id"] == "工作/1".encode()
    view = await router.http.get("/v1/workflows/工作/1")
    assert view.json()["id"] == "工作/1"


async def test_anonymous_calls_of_one_conversation_are_one_workflow(router, engine):
    first = await router.chat(None)
    second = await router.chat(
        None, messages=[*MESSAGES, {"role": "assistant", "content": "x"}, *MESSAGES]
    )
    assert first.headers["x-workflow-id"] == second.headers["x-workflow-id"]
    assert [r.invocation["step"] for r in engine.requests] == [1, 2]


async def test_a_large_body_passes(router, engine):
    content = "long " * 400_000
    await router.chat(messages=[{"role": "user", "content": content}])
    assert json.loads(engine.requests[0].body)["messages"][0]["content"] == content
