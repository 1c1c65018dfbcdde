"""``pbkv load``: what it writes, and one line with exit code 2 for what it cannot do."""

import asyncio
import errno
import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from services.cli.load import app
from services.cli.outputs import without_key
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
        (["run", "--url", "http://[::1"], "no valid host and port"),
        (["run", "--url", "http://127.0.0.1:99999"], "no valid host and port"),
        (["run", "--url", "http://user:secret@host"], "OPENAI_API_KEY"),
        (["run", "--api-key", "a\nb"], "no header can carry"),
        (["run", "--request-timeout", "0"], "above 0 seconds"),
        (["run", "--rate", "1", "--arrivals", "closed"], "choose one"),
        (["run", "--decisions", "model"], "--framework"),
        (["run", "--rate", "inf"], "rate above 0"),
        (["run", "--arrivals", "gamma", "--rate", "1", "--burstiness", "1e200"], "100 at most"),
        (
            ["run", "--framework", "auto", "--agents-python", "/bin/false"],
            "cannot run the programs",
        ),
        (["run", "--framework", "auto", "--agents-python", "/bin/echo"], "cannot run the"),
        (["overhead", "--json", "/dev/null/x.json"], "cannot write"),
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
    if "--agents-python" in words:
        words = [*words, "--model", "m", "--url", "http://127.0.0.1:1"]
    done = load(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.output


@pytest.mark.parametrize("value", ["nan", "0", "-1"])
def test_a_scale_that_leaves_nothing_is_refused(value):
    done = load("run", "--scale", value)
    assert done.exit_code == 2
    assert "--scale" in done.stderr


async def test_a_full_disk_costs_no_run_and_no_result(tmp_path, monkeypatch):
    """Before the run it is refused; a disk that fills up later takes the file and not the table."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    words = ["run", *FAST, "--json", str(tmp_path / "a.json")]
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", Mock(side_effect=full))
        done = load(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "a.json: No space left on device" in done.stderr
    engine = await FakeEngine().start()
    try:
        monkeypatch.setattr("loadgen.results.write_results", Mock(side_effect=full))
        done = await asyncio.to_thread(load, *words, "--url", engine.url)
    finally:
        await engine.stop()
    assert done.exit_code == 2
    assert "PA. TTFT" in done.stdout
    assert done.stderr.strip().splitlines()[-1].endswith("No space left on device")


@pytest.mark.parametrize("form", [["--api-key", "secret"], ["--api-key=secret"]])
def test_a_key_is_not_written_down(form):
    words = without_key(["load", "run", *form, "--seed", "1"])
    assert "secret" not in " ".join(words)
    assert words[-2:] == ["--seed", "1"]


async def test_errors_are_explained_on_the_screen():
    engine = await FakeEngine().start()
    engine.faults.status = 400
    try:
        done = await asyncio.to_thread(load, "run", *FAST, "--url", engine.url)
    finally:
        await engine.stop()
    assert done.exit_code == 1
    assert "errors: 2 4xx (the endpoint takes the request for wrong" in done.stdout
