"""What a client of the stack gets."""

from __future__ import annotations

import asyncio

import httpx
import openai
import pytest

from tests.stack.running import MODEL, RunningStack
from tests.waiting import wait_until

QUESTION = "Tell me of the bridges of Paris, one after the other, and who built them and when. " * 4


@pytest.fixture
def client(stack: RunningStack) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{stack.urls[0]}/v1", api_key="none", max_retries=0)


def test_one_workflow_keeps_its_replica_and_its_cache(client: openai.OpenAI) -> None:
    def call(agent: str) -> tuple[str, int]:
        answer = client.chat.completions.with_raw_response.create(
            model=MODEL,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=4,
            extra_headers={"X-Workflow-ID": "bridges", "X-Agent-Name": agent},
        )
        usage = answer.parse().usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        return answer.headers["X-PBKV-Replica"], usage.prompt_tokens_details.cached_tokens or 0

    first, again = call("planner"), call("critic")
    assert first[1] == 0
    assert again[1] > 0
    assert first[0] == again[0]


def test_streaming(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=6,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"workflow": {"id": "streamed", "agent": "planner"}},
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    whole = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=6,
        temperature=0,
        extra_body={"workflow": {"id": "streamed", "agent": "planner"}},
    )
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 6


async def test_fifty_first_calls_at_once_through_two_routers_share_one_replica(
    stack: RunningStack,
) -> None:
    async with httpx.AsyncClient(timeout=60.0) as client:

        async def call(number: int) -> httpx.Response:
            return await client.post(
                f"{stack.urls[number % 2]}/v1/chat/completions",
                json={
                    "model": MODEL,
                    "max_tokens": 1,
                    "messages": [{"role": "user", "content": f"Question {number}"}],
                },
                headers={"X-Workflow-ID": "fan-out", "X-Agent-Name": f"worker-{number % 5}"},
            )

        answers = await asyncio.gather(*(call(number) for number in range(50)))
    assert [answer.status_code for answer in answers] == [200] * 50
    assert len({answer.headers["X-PBKV-Replica"] for answer in answers}) == 1


def test_workflows_spread_over_the_replicas(stack: RunningStack) -> None:
    used = {stack.chat(f"spread-{n}", "Hello").headers["X-PBKV-Replica"] for n in range(4)}
    assert used == stack.ready_replicas()
    assert len(used) == 2


def test_the_registry_tells_what_the_engine_holds(stack: RunningStack) -> None:
    replica = stack.chat("registered", QUESTION).headers["X-PBKV-Replica"]
    stack.chat("registered", QUESTION)
    with stack.redis as client:

        def after_the_calls() -> dict[str, str] | None:
            fields: dict[str, str] = client.hgetall(f"pbkv:replica:{replica}")
            told = int(fields["kv_tokens_active"]) > 0 and float(fields["hit_rate"]) > 0
            return fields if told else None

        fields = wait_until(after_the_calls)
        assert fields["state"] == "ready"
        assert fields["model"] == MODEL
        assert int(fields["kv_tokens_total"]) == 8192
        assert int(fields["workflows"]) >= 1
        assert int(fields["kv_tokens_used"]) == int(fields["kv_tokens_active"]) + int(
            fields["kv_tokens_retired"]
        )
        assert 0 < client.ttl(f"pbkv:replica:{replica}") <= 3


def test_the_end_of_a_workflow_reaches_its_engine(stack: RunningStack) -> None:
    replica = stack.chat("ending", "Hello there").headers["X-PBKV-Replica"]
    with stack.redis as client:
        url = client.hget(f"pbkv:replica:{replica}", "url")

    def retired() -> float:
        lines = httpx.get(f"{url}/metrics", timeout=10.0).text.splitlines()
        line = next(x for x in lines if x.startswith("pbkv_workflows") and 'state="retired"' in x)
        return float(line.rpartition(" ")[2])

    before = retired()
    assert httpx.delete(f"{stack.urls[1]}/v1/workflows/ending").status_code == 204
    wait_until(lambda: retired() == before + 1)
