"""Real SGLang servers, each started once per device and shared by the tests that fit it.

Every test that asks for an engine runs on the CPU, and again on a CUDA device (``make gpu``) where
there is one.
"""

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
CUDA_ARGS = ("--attention-backend", "triton", "--dtype", "float32")
"""Replies are compared token by token: with a random model in bfloat16, two ways to split the same
prompt may round to different tokens, whatever the cache does."""
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
    options = defaults | options
    if options.get("device") == "cuda":
        _skip_without_cuda(options.get("tp", 1))
        options["extra_args"] += CUDA_ARGS
    engine = EngineProcess(EngineOptions(**options), environ)
    engine.start()
    client = EngineClient(engine.url)
    try:
        engine.wait_ready(READY_TIMEOUT_S)
        yield client
    finally:
        client.close()
        engine.stop(grace_s=0.0)


def _skip_without_cuda(devices: int) -> None:
    # Imported here: the collection of tests that are not selected must not pay for it.
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found < devices:
        pytest.skip(f"needs {devices} CUDA device(s), found {found}")


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request) -> str:
    """What the engines of a test compute on."""
    if request.param == "cuda":
        _skip_without_cuda(1)
    return request.param


@pytest.fixture(scope="session")
def start_engine(tmp_path_factory, device):
    """A function that is :func:`running_engine` on ``device``, in a folder of its own."""

    def start(**options):
        return running_engine(tmp_path_factory.mktemp("engine"), device=device, **options)

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
