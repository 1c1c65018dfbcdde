"""seq grows for each workflow, whatever happens to Redis and in whatever order."""

import asyncio
import itertools
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.pins import WorkflowKey
from router.serving import Serving
from router.settings import RouterSettings
from tests.fakes.engine import MODEL

KEYS = [WorkflowKey("default", f"w{i}") for i in range(2)]


@asynccontextmanager
async def two_routers(url):
    routers = [Serving.build(RouterSettings(redis_url=url)) for _ in range(2)]
    try:
        yield routers
    finally:
        for router in routers:
            await router.link.close()


async def register(client):
    for name in "ab":
        await client.hset(
            f"pbkv:replica:{name}",
            mapping={"url": "http://h:1", "state": "ready", "model": MODEL},
        )


steps = st.lists(
    st.tuples(
        st.sampled_from(["call", "call", "call", "end", "flush", "away", "return"]),
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(1, 3),
    ),
    max_size=20,
)


async def play(url, script):
    issued = {key: [] for key in KEYS}
    async with two_routers(url) as routers:
        client = routers[0].link.client
        await client.flushall()
        await register(client)
        for router in routers:
            await router.lifecycle.refresh()
        for action, which_router, which_key, times in script:
            router, key = routers[which_router], KEYS[which_key]
            if action == "call":
                # Several at once: their order among themselves is free, their seqs differ.
                pinned = await asyncio.gather(
                    *[router.lifecycle.call(key, "a", MODEL) for _ in range(times)]
                )
                issued[key].append({p.seq for p in pinned})
                assert len(issued[key][-1]) == times
            elif action == "end":
                await router.lifecycle.end(key)
            elif action == "flush":
                await client.flushall()
                await register(client)
            elif action == "away":
                # This router alone loses its connection.
                router.link.available = False
            else:
                await router.lifecycle.refresh()
                assert router.link.available
        for router in routers:
            await router.lifecycle.refresh()
        for key, groups in issued.items():
            for earlier, later in itertools.pairwise(groups):
                assert max(earlier) < min(later), key
        return issued


@given(script=steps)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_seq_grows(redis_server, script):
    asyncio.run(play(redis_server.url, script))


async def test_seq_goes_on_from_memory_when_the_clock_of_redis_is_behind(redis_url):
    async with two_routers(redis_url) as (router, _):
        client = router.link.client
        await register(client)
        await router.lifecycle.refresh()
        await router.lifecycle.call(KEYS[0], "a", MODEL)
        ahead = router.memory.get(KEYS[0])
        ahead.seq += 3600 * 1_000_000
        before = ahead.seq
        await client.flushall()
        await register(client)
        pinned = await router.lifecycle.call(KEYS[0], "a", MODEL)
        assert pinned.seq == before + 1
        await router.lifecycle.end(KEYS[0])
        assert int(await client.hget("pbkv:workflow:default:w0", "seq")) == before + 2


@pytest.mark.parametrize("told_first", ["one", "two"])
async def test_the_later_word_wins_whoever_speaks_first(redis_url, told_first):
    async with two_routers(redis_url) as (one, two):
        client = one.link.client
        await register(client)
        for router in (one, two):
            await router.lifecycle.refresh()
            router.link.available = False
        await one.lifecycle.call(KEYS[0], "a", MODEL)
        await two.lifecycle.call(KEYS[0], "b", MODEL)
        await two.lifecycle.end(KEYS[0])
        order = (one, two) if told_first == "one" else (two, one)
        for router in order:
            await router.lifecycle.refresh()
            assert router.link.available
        assert await client.hget("pbkv:workflow:default:w0", "state") == "retired"
        assert await client.zcard("pbkv:pins:a") + await client.zcard("pbkv:pins:b") == 0
