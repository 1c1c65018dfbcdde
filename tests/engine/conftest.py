"""Real SGLang servers on the CPU, each started once and shared by the tests that fit it."""

from __future__ import annotations

import importlib.util
import itertools
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.client import EngineClient, Prompts
from tests.redis_server import RedisServer

if importlib.util.find_spec("sglang") is None:
    pytest.skip("the engine extra is not installed (make install)", allow_module_level=True)

from pbkv.settings import PolicySettings
from services.engine import EngineOptions, EngineProcess
from services.models import resolve_model
from services.ports import free_port

READY_TIMEOUT_S = 240.0
_seeds = itertools.count(1)


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.engine)


@contextmanager
def running_engine(tmp_path: Path, environ=None, **options):
    """One engine with the tiny model, ready, and its client."""
    defaults = {
        "model_path": resolve_model("tiny"),
        "served_model_name": "tiny",
        "port": free_port("127.0.0.1"),
        "kv_tokens": 4096,
        "context_length": 3000,
        "log_path": tmp_path / "engine.log",
        "extra_args": ("--skip-server-warmup",),
    }
    engine = EngineProcess(EngineOptions(**(defaults | options)), environ)
    engine.start()
    client = EngineClient(engine.url)
    try:
        engine.wait_ready(READY_TIMEOUT_S)
        yield client
    finally:
        client.close()
        engine.stop(grace_s=0.0)


@pytest.fixture(scope="session")
def start_engine(tmp_path_factory):
    """A function that is :func:`running_engine` in a folder of its own."""

    def start(**options):
        return running_engine(tmp_path_factory.mktemp("engine"), **options)

    return start


@pytest.fixture
def prompts() -> Prompts:
    return Prompts(next(_seeds))


@pytest.fixture(scope="session")
def stock(start_engine):
    """Stock SGLang: the reference for replies, for LRU and for hidden states."""
    extra_args = ("--skip-server-warmup", "--enable-return-hidden-states")
    with start_engine(cache="stock", extra_args=extra_args) as client:
        yield client


@pytest.fixture(scope="session")
def lae_log(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("lae")


@pytest.fixture(scope="session")
def lae(start_engine, lae_log):
    """The plug-in with lifecycle-aware eviction, chunked prefill, no host tier."""
    policy = PolicySettings(policy="lae", eviction_log_dir=str(lae_log))
    with start_engine(policy=policy, chunked_prefill_size=512) as client:
        yield client


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()
