"""The page, the counts it draws, and the search for workflows."""

from contextlib import AsyncExitStack

import pytest

from tests.contract.router.stack import eventually, running_router
from tests.contract.router.test_bad_input import check_shape
from tests.fakes.engine import MODEL

KEYS = {"key-of-one": "one", "key-of-two": "two"}


async def told(*routers):
    """Have routers count and tell, which they do every few seconds."""
    for router in routers:
        router.serving.activity.sample()
        await router.serving.activity.tell()


async def activity(router, **headers):
    answer = await router.http.get("/v1/activity", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_page_needs_no_key_and_its_data_does(redis_url, engine):
    async with running_router(redis_url, api_keys=KEYS) as router:
        page = await router.http.get("/dashboard")
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-frame-options"] == "DENY"
        for path in ("/v1/activity", "/v1/replicas", "/v1/workflows"):
            check_shape(await router.http.get(path), 401)
        key = {"Authorization": "Bearer key-of-one"}
        assert (await activity(router, **key))["scope"] == "fleet"
        assert router.metric("pbkv_router_requests_total", route="/dashboard", status="200") == 1


async def test_what_several_routers_count_is_added_up(redis_url, fleet, engine):
    engine.faults.cached_tokens = 5
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(running_router(redis_url)) for _ in range(2)]
        for router in (one, two, two):
            await eventually(router.serving.directory.ready)
            await router.chat(stream=True)
        await eventually(lambda: two.metric("pbkv_router_prompt_tokens_total") == 22)
        await eventually(lambda: one.metric("pbkv_router_prompt_tokens_total") == 11)
        engine.faults.status = 503
        await one.chat()
        await told(one, two)
        # Told once, however often one asks.
        await told(one, two)
        for router in (one, two):
            seen = await router.serving.activity.seen()
            total = {}
            for counts in seen.intervals.values():
                for name, count in counts.items():
                    total[name] = total.get(name, 0) + count
            assert (total["status:200"], total["status:503"]) == (3, 1)
            assert (total["prompt"], total["cached"]) == (33, 15)
            assert total["ttft:+Inf"] == 3
            shown = await activity(router)
            assert shown["statuses"] == {"200": 3, "503": 1}
    keys = [key async for key in fleet.client.scan_iter("pbkv:activity:*")]
    assert keys
    for key in keys:
        assert 0 < await fleet.client.ttl(key) <= 920


async def test_while_redis_is_away_a_router_knows_its_own_part(redis_server, redis_url, engine):
    async with running_router(redis_url) as router:
        await router.chat()
        redis_server.kill()
        try:
            await router.chat()
            await told(router)
            shown = await activity(router)
            assert (shown["scope"], shown["statuses"]) == ("router", {"200": 2})
        finally:
            redis_server.start()
        await eventually(lambda: router.serving.link.available)
        await told(router)
        shown = await activity(router)
        assert (shown["scope"], shown["statuses"]) == ("fleet", {"200": 2})


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("TRIP", {"trip-1", "trip-12"}),
        ("coder", {"trip-12"}),
        ("a", {"trip-1", "trip-12", "other"}),
    ],
)
async def test_search(router, engine, search, found):
    await router.chat("trip-1", headers={"X-Agent-Name": "Planner"})
    await router.chat("trip-12", headers={"X-Agent-Name": "Coder"})
    await router.chat("other", headers={"X-Agent-Name": "Planner"})
    answer = (await router.http.get("/v1/workflows", params={"search": search, "limit": 1})).json()
    assert (answer["total"], len(answer["data"])) == (len(found), 1)
    answer = (await router.http.get("/v1/workflows", params={"search": search})).json()
    assert {view["id"] for view in answer["data"]} == found


async def test_a_search_that_is_too_long(router):
    check_shape(await router.http.get("/v1/workflows", params={"search": "x" * 257}), 400)


async def test_a_search_stays_within_the_tenant(redis_url, engine):
    async with running_router(redis_url, api_keys=KEYS) as router:
        for key in KEYS:
            headers = {"Authorization": f"Bearer {key}"}
            answer = await router.chat("shared-name", headers=headers, model=MODEL)
            assert answer.status_code == 200
            listed = await router.http.get(
                "/v1/workflows", params={"search": "shared"}, headers=headers
            )
            assert listed.json()["total"] == 1


async def test_what_replicas_say_of_their_queue(fleet, router):
    await fleet.set("a", queued_requests=3, forecast_accuracy="0.5")

    async def shown():
        listed = (await router.http.get("/v1/replicas")).json()
        assert listed["now"] > 1e9
        replica = listed["data"][0]
        return (replica["queued_requests"], replica["forecast_accuracy"]) == (3, 0.5)

    await eventually(shown)
    # One that has no predictor, or is of an earlier version, says nothing of it.
    await fleet.add("old", "http://127.0.0.1:1")
    await eventually(lambda: router.serving.directory.get("old") is not None)
    listed = (await router.http.get("/v1/replicas")).json()["data"]
    assert listed[1]["queued_requests"] is None
