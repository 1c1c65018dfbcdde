"""``pbkv load``: what it writes, and one line with exit code 2 for what it cannot do."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from services.cli.load import app
from tests.fakes.engine import FakeEngine

FAST = ["--workload", "hover", "--workflows", "2", "--scale", "0.05", "--pause-scale", "0"]


def load(*words):
    return CliRunner().invoke(app, list(words))


async def test_run_and_compare(tmp_path):
    engine = await FakeEngine().start()
    files = []
    try:
        for name in ("one", "two"):
            files.append(tmp_path / f"{name}.json")
            words = ["--url", f"{engine.url}/v1", "--json", str(files[-1]), "--name", name]
            done = await asyncio.to_thread(load, "run", *FAST, *words)
            assert done.exit_code == 0, done.output
            assert "PA. TTFT" in done.output
    finally:
        await engine.stop()
    content = json.loads(files[0].read_text())
    assert content["schema"] == 1
    assert content["environment"]["workload"] == "hover"
    keys = {"agent", "calls", "errors", "hit_rate", "latency_mean_s", "ttft_mean_s", "ttft_p95_s"}
    assert keys <= set(content["rows"][0])
    assert content["rows"][0]["agent"] == "all"
    done = load("compare", *map(str, files), "--html", str(tmp_path / "both.html"))
    assert done.exit_code == 0
    assert "From one to two" in done.output
    assert (tmp_path / "both.html").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--url", "nowhere"], "http://"),
        (["run", "--workload", "hoover"], "no workload"),
        (["run", "--arrivals", "sometimes"], "--arrivals must be one of"),
        (["run", "--arrivals", "gamma"], "rate above 0"),
        (["run", "--arrivals", "trace"], "no times of its own"),
        (["run", "--framework", "autogen"], "hover langgraph"),
        (["run", "--framework", "auto", "--decisions", "dice"], "workload or model"),
        (["run", "--ca-file", "/nothing/here"], "no certificates"),
        (["run", "--json", "/dev/null/x.json"], "cannot write"),
        (["compare", "/nothing/a.json", "/nothing/b.json"], "cannot read"),
    ],
)
def test_bad_input_is_one_line(words, said):
    done = load(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.output
