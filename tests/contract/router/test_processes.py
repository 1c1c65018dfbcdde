"""Routers as processes: any of them serves any workflow, and none is missed."""

import asyncio
import signal

import httpx
import pytest

from tests.contract.router.stack import (
    MESSAGES,
    end_process,
    router_process,
    running_fleet,
)

CHAT = "/v1/chat/completions"
BODY = {"messages": MESSAGES}


@pytest.fixture
async def two_replicas(redis_url):
    async with running_fleet(redis_url) as fleet:
        await fleet.add("a")
        await fleet.add("b")
        yield fleet


async def test_fifty_first_calls_through_two_processes(redis_url, two_replicas):
    fleet = two_replicas
    async with (
        router_process(redis_url) as (_, one),
        router_process(redis_url) as (_, two),
        httpx.AsyncClient(timeout=30) as http,
    ):
        answers = await asyncio.gather(
            *[
                http.post(f"{(one, two)[i % 2]}{CHAT}", json=BODY, headers={"X-Workflow-ID": "w"})
                for i in range(50)
            ]
        )
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.headers["x-pbkv-replica"] for answer in answers}) == 1
    invocations = [request.invocation for request in fleet.requests()]
    assert sorted(i["step"] for i in invocations) == list(range(1, 51))
    assert len({i["seq"] for i in invocations}) == 50
    assert sorted([await fleet.kinds("a"), await fleet.kinds("b")]) == [[], ["start"]]


async def test_a_killed_router_is_not_missed(redis_url, two_replicas):
    async with (
        router_process(redis_url) as (process, one),
        router_process(redis_url) as (_, two),
        httpx.AsyncClient(timeout=30) as http,
    ):
        before = {}
        for i in range(6):
            headers = {"X-Workflow-ID": f"w{i}"}
            answer = await http.post(one + CHAT, json=BODY, headers=headers)
            before[f"w{i}"] = answer.headers["x-pbkv-replica"]
        end_process(process)
        for name, replica in before.items():
            answer = await http.post(two + CHAT, json=BODY, headers={"X-Workflow-ID": name})
            assert answer.headers["x-pbkv-replica"] == replica
        view = (await http.get(f"{two}/v1/workflows/w0")).json()
        assert (view["step"], view["epoch"]) == (2, 1)


async def test_sigterm_lets_requests_end(redis_url, two_replicas):
    fleet = two_replicas
    for engine in fleet.engines.values():
        engine.faults.hold_after_chunks = 1
    async with router_process(redis_url, shutdown_s=20) as (process, url):
        async with (
            httpx.AsyncClient(timeout=30) as http,
            http.stream("POST", url + CHAT, json={**BODY, "stream": True}) as answer,
        ):
            chunks = answer.aiter_bytes()
            received = await anext(chunks)
            process.send_signal(signal.SIGTERM)
            for engine in fleet.engines.values():
                engine.release()
            received += b"".join([chunk async for chunk in chunks])
        assert received.endswith(b"data: [DONE]\n\n")
        assert await asyncio.to_thread(process.wait, 20) in (0, -signal.SIGTERM)
