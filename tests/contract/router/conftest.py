"""A real Redis per module, emptied per test; routers and fake engines in this process."""

import pytest

from tests.contract.router.stack import running_fleet, running_router
from tests.redis_server import RedisServer


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis_url(redis_server):
    redis_server.client.flushall()
    return redis_server.url


@pytest.fixture
async def fleet(redis_url):
    async with running_fleet(redis_url) as fleet:
        yield fleet


@pytest.fixture
async def engine(fleet):
    """The only replica, named "a"."""
    return await fleet.add("a")


@pytest.fixture
async def router(redis_url, engine):
    async with running_router(redis_url) as router:
        yield router
