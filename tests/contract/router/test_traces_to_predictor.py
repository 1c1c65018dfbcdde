"""From requests to a predictor in use: routers trace, a file or a follower learns, engines load."""

import asyncio
import signal
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from pbkv.keys import TRACES_KEY
from pbkv.predict import make_predictor
from pbkv.predict.publication import is_publication, resolve_checkpoint
from pbkv.settings import PolicySettings
from pbkv.sglang.predictors import with_checkpoint
from pbkv.trace import read_traces, workflows_of
from services.cli.main import app
from services.training.trainer import MarkovTrainer
from tests.contract.router.stack import end_process, eventually, start_process


async def serve(router, agents, names):
    async def one(name):
        for step, agent in enumerate(agents, start=1):
            headers = {"X-Agent-Name": agent}
            if step == len(agents):
                headers["X-Workflow-End"] = "true"
            assert (await router.chat(name, headers=headers)).status_code == 200

    await asyncio.gather(*map(one, names))


def likeliest(predictor, *prefix):
    rows = predictor.forecast([prefix], np.empty((1, 0), dtype=np.float32))[0]
    return (*predictor.agents, None)[rows[0].argmax()]


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


async def test_exported_traces_train_a_predictor(router, fleet, redis_url, tmp_path):
    await serve(router, ["Planner", "Coder", "Tester"], [f"w{i}" for i in range(20)])
    await eventually(lambda: router.metric("pbkv_router_traces_queued") == 0)
    await fleet.client.xadd(TRACES_KEY, {"record": "no record"})
    out = tmp_path / "traces.jsonl"

    result = await asyncio.to_thread(run, "trace", "export", out, "--redis-url", redis_url)

    assert result.exit_code == 0, result.output
    assert "wrote 60 records" in result.output
    assert "1 entries of the stream are no records" in result.output
    workflows = workflows_of(read_traces(out))
    assert {w.agents for w in workflows} == {("Planner", "Coder", "Tester")}
    assert all(w.ended for w in workflows)

    checkpoint = tmp_path / "markov.json"
    MarkovTrainer().fit(workflows, checkpoint)
    predictor = make_predictor(PolicySettings(predictor_checkpoint=str(checkpoint)))
    assert likeliest(predictor, "Planner") == "Coder"
    assert likeliest(predictor, "Planner", "Coder") == "Tester"
    assert likeliest(predictor, "Planner", "Coder", "Tester") is None


@pytest.fixture
def following(redis_url, tmp_path):
    """``pbkv train --follow`` in a process of its own, and the folder it publishes to."""
    folder = tmp_path / "checkpoints"
    argv = [sys.executable, "-m", "services.cli.main", "train", str(folder), "--follow"]
    argv += ["--family", "markov", "--redis-url", redis_url, "--test", "5", "--train-every", "10"]
    process = start_process(argv, PYTHONUNBUFFERED="1")
    yield process, folder
    end_process(process)


async def test_a_follower_publishes_what_engines_load(router, following):
    process, folder = following
    await eventually(lambda: is_publication(folder))
    settings = PolicySettings(predictor_checkpoint=str(folder))
    empty = make_predictor(with_checkpoint(settings))
    assert empty.num_contexts == 0, "before the first publication there is nothing to begin with"

    await serve(router, ["Planner", "Coder"], [f"w{i}" for i in range(20)])
    await eventually(lambda: resolve_checkpoint(folder))

    assert likeliest(make_predictor(with_checkpoint(settings)), "Planner") == "Coder"
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, 30) == 0


async def test_a_trace_file_trains_from_the_command_line(router, redis_url, tmp_path):
    await serve(router, ["Planner", "Coder"], [f"w{i}" for i in range(8)])
    await eventually(lambda: router.metric("pbkv_router_traces_queued") == 0)
    out, checkpoint = tmp_path / "traces.jsonl", tmp_path / "markov.json"
    await asyncio.to_thread(run, "trace", "export", out, "--redis-url", redis_url)
    words = ["train", checkpoint, "--family", "markov", "--from-traces", out, "--test"]

    refused = await asyncio.to_thread(run, *words, 8)
    trained = await asyncio.to_thread(run, *words, 3)

    assert (refused.exit_code, "that is not more than" in refused.output) == (2, True)
    assert trained.exit_code == 0, trained.output
    assert "learnt from 5 workflows; s1 1.000" in trained.output
    assert likeliest(
        make_predictor(PolicySettings(predictor_checkpoint=str(checkpoint))), "Planner"
    )
