"""``GET /v1/replicas/targets``, read as Prometheus reads it."""

from tests.contract.router.stack import eventually, running_router


async def test_every_replica_that_serves_is_a_target(fleet, router):
    await fleet.add("b", url="https://10.0.0.7:15001/base", state="draining")
    await fleet.add("c", url="http://10.0.0.8:15002", state="starting")
    await eventually(lambda: len(router.serving.directory.all()) == 3)
    answer = await router.http.get("/v1/replicas/targets")
    assert answer.status_code == 200
    # Prometheus refuses any other.
    assert answer.headers["content-type"] == "application/json"
    first, second = answer.json()
    assert first["targets"] == [fleet.engines["a"].url.removeprefix("http://")]
    assert first["labels"]["__scheme__"] == "http"
    assert first["labels"]["__metrics_path__"] == "/metrics"
    assert second == {
        "targets": ["10.0.0.7:15001"],
        "labels": {
            "__scheme__": "https",
            "__metrics_path__": "/base/metrics",
            "__meta_pbkv_replica": "b",
            "__meta_pbkv_model": "fake-model",
            "__meta_pbkv_state": "draining",
        },
    }


async def test_without_a_replica_the_list_is_empty(redis_url):
    async with running_router(redis_url) as router:
        assert (await router.http.get("/v1/replicas/targets")).json() == []


async def test_a_router_with_keys_wants_one(redis_url):
    async with running_router(redis_url, api_keys={"k": "ops"}) as router:
        assert (await router.http.get("/v1/replicas/targets")).status_code == 401
        headers = {"Authorization": "Bearer k"}
        answer = await router.http.get("/v1/replicas/targets", headers=headers)
        assert answer.json() == []
