"""The OpenAI client works against a router, sync and async, streamed and not."""

import asyncio

import openai
import pytest

from tests.contract.router.stack import MESSAGES
from tests.fakes.engine import MODEL

EXTRA = {"workflow": {"id": "w", "agent": "planner"}}


@pytest.fixture
async def client(router):
    async with openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key="x") as client:
        yield client


async def test_async(client, engine):
    answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, extra_body=EXTRA)
    assert answer.choices[0].message.content == "answer of a"
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    assert engine.requests[0].invocation["agent"] == "planner"


async def test_headers_of_the_answer(client, engine):
    raw = await client.chat.completions.with_raw_response.create(
        model=MODEL, messages=MESSAGES, extra_headers={"X-Workflow-ID": "w"}
    )
    assert (raw.headers["x-workflow-id"], raw.headers["x-pbkv-replica"]) == ("w", "a")


async def test_async_stream(client, engine):
    stream = await client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, extra_body=EXTRA
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content for c in chunks) == "wörd 0 wörd 1 wörd 2 "
    assert all(chunk.usage is None for chunk in chunks)


async def test_async_stream_with_usage(client, engine):
    stream = await client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].usage.prompt_tokens == 11


async def test_sync(router, engine):
    def talk():
        with openai.OpenAI(base_url=f"{router.url}/v1", api_key="x") as client:
            whole = client.chat.completions.create(model=MODEL, messages=MESSAGES, user="u")
            streamed = client.chat.completions.create(
                model=MODEL, messages=MESSAGES, stream=True, user="u"
            )
            models = [model.id for model in client.models.list()]
            return whole, list(streamed), models, client.models.retrieve(MODEL)

    whole, chunks, models, model = await asyncio.to_thread(talk)
    assert whole.choices[0].finish_reason == "stop"
    assert len(chunks) == 3
    assert models == [MODEL] and model.id == MODEL
    assert [r.invocation["workflow"] for r in engine.requests] == ["default:u"] * 2


async def test_completions_and_embeddings(client, engine):
    text = await client.completions.create(model=MODEL, prompt="p")
    assert text.choices[0].text
    vector = await client.embeddings.create(model=MODEL, input="x", encoding_format="float")
    assert vector.data[0].embedding == [0.5]


async def test_errors_have_their_types(client, engine):
    with pytest.raises(openai.NotFoundError, match="does not exist") as caught:
        await client.chat.completions.create(model="gpt-9", messages=MESSAGES)
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="messages"):
        await client.chat.completions.create(model=MODEL, messages=[])
