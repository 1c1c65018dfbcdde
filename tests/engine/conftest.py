"""Real SGLang servers, each started once per device and shared by the tests that fit it.

A start takes half a minute of CPU time, so an engine serves every test that its settings allow.

Every test that asks for an engine runs on the CPU, and again on a CUDA device (``make gpu``) where
there is one.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.client import EngineClient, Prompts
from tests.redis_server import RedisServer

if importlib.util.find_spec("sglang") is None:
    pytest.skip("the engine extra is not installed (make install)", allow_module_level=True)

from pbkv.settings import PolicySettings
from services.engine import EngineOptions, EngineProcess
from services.engine.options import Device, resolve_device
from services.models import resolve_model
from services.ports import free_port
from services.training.publication import CheckpointFolder
from tests.engine import capturing_predictor
from tests.engine.published import publish_markov

READY_TIMEOUT_S = 400.0
REPOSITORY = Path(__file__).parents[2]
CUDA_ARGS = ("--attention-backend", "triton", "--dtype", "float32")
"""Replies are compared token by token: with a random model in bfloat16, two ways to split the same
prompt may round to different tokens, whatever the cache does."""
_seeds = itertools.count(1)


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.engine)
            # The first test of an engine pays for its start, on a machine that may be busy.
            item.add_marker(pytest.mark.timeout(600))


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
    found = 0
    if resolve_device(Device.AUTO) is Device.CUDA:
        # Imported here: a machine without a driver need not pay for it.
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
    """The plug-in with lifecycle-aware eviction, chunked prefill, no host tier, and a context that
    is longer than the pool."""
    policy = PolicySettings(policy="lae", eviction_log_dir=str(lae_log))
    with start_engine(policy=policy, chunked_prefill_size=512, context_length=8192) as client:
        yield client


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def states(start_engine, redis_server, tmp_path_factory):
    """Hidden states: captured for the shadow predictor, which writes them to ``captured``, and
    written to ``hidden``; the predictor in use is what ``checkpoints`` publishes.

    The engine chunks prompts of more than 256 tokens, mixes decoding rows into prefill batches and
    schedules with overlap. Events come from Redis for the replica "r1", and a workflow that is
    silent for three seconds ends.
    """
    captured = tmp_path_factory.mktemp("captured")
    (captured / "checkpoint").touch()
    hidden = tmp_path_factory.mktemp("hidden")
    checkpoints = CheckpointFolder(tmp_path_factory.mktemp("checkpoints"))
    publish_markov(checkpoints, "Coder")
    policy = PolicySettings(
        policy="he",
        predictor_checkpoint=str(checkpoints.folder),
        predictor_reload_s=0.1,
        shadow_predictor=capturing_predictor.NAME,
        shadow_checkpoint=str(captured / "checkpoint"),
        trace_hidden_dir=str(hidden),
        trace_hidden_flush_s=0.1,
        redis_url=redis_server.url,
        replica_id="r1",
        idle_timeout_s=3.0,
    )
    with start_engine(
        policy=policy,
        environ=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        chunked_prefill_size=256,
        extra_args=("--skip-server-warmup", "--enable-mixed-chunk"),
    ) as client:
        client.captured, client.hidden, client.checkpoints = captured, hidden, checkpoints
        yield client


@pytest.fixture(scope="session")
def unpredicted(start_engine, tmp_path_factory):
    """The queue order ``pbkv`` and no predictor, so that nothing moves while a test looks; one
    request at a time, which may wait as long as it likes."""
    folder = tmp_path_factory.mktemp("unpredicted")
    policy = PolicySettings(
        policy="he",
        predictor="none",
        queue="pbkv",
        eviction_log_dir=str(folder),
        queue_max_wait_s=600.0,
    )
    with start_engine(policy=policy, max_running_requests=1, chunked_prefill_size=512) as client:
        client.log = folder / "evictions-rank0.jsonl"
        yield client


@pytest.fixture(scope="session")
def pair(start_engine, redis_server, tmp_path_factory):
    """Two tensor-parallel ranks with a host tier that evict pages, one request at a time, and a
    bound of the queue that every wait of a test exceeds. Events come from Redis for "pair"."""
    folder = tmp_path_factory.mktemp("ranks")
    policy = PolicySettings(
        policy="he",
        queue="pbkv",
        eviction_unit="page",
        queue_max_wait_s=0.5,
        eviction_log_dir=str(folder),
        redis_url=redis_server.url,
        replica_id="pair",
    )
    with start_engine(
        policy=policy,
        environ=os.environ | {"SGLANG_ENABLE_RANK_CONSENSUS_CHECKER": "1"},
        tp=2,
        cpu_cores="0|1",
        host_ratio=2.0,
        max_running_requests=1,
    ) as client:
        client.logs = [folder / f"evictions-rank{rank}.jsonl" for rank in (0, 1)]
        yield client
