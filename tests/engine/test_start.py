"""A start that cannot work ends with one clear line."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

from services.models import resolve_model
from tests.engine.forked_starts import ForkedStarts

PLUG_IN = ("--radix-cache-backend", "pbkv")


def words(*arguments):
    model = str(resolve_model("tiny"))
    return ["--model-path", model, "--device", "cpu", "--port", "1", *arguments]


@pytest.fixture(scope="module")
def starts():
    running = ForkedStarts({**os.environ, "HF_HUB_OFFLINE": "1"})
    yield running
    running.close()


@pytest.fixture
def start(starts, tmp_path):
    """Starts the server; exit code, what the plug-in said, and all that was said."""

    def run(environ, *arguments):
        output = tmp_path / "output"
        code = starts.start(environ, words(*arguments), output)
        return code, *told(output.read_text())

    return run


def told(output):
    return [line for line in output.splitlines() if line.startswith("pbkv: ")], output


@pytest.mark.parametrize(
    ("environ", "arguments", "word"),
    [
        ({"PBKV_ENGINE_POLICY": "belady"}, (), "choose one of: lru, "),
        ({"PBKV_ENGINE_POLCY": "lae"}, (), "unknown setting PBKV_ENGINE_POLCY"),
        ({"PBKV_ENGINE_PREDICTOR": "markow"}, (), "choose one of: none, markov"),
        ({"PBKV_ENGINE_PREDICTOR_CHECKPOINT": "/nowhere.json"}, (), "No such file"),
        ({}, ("--disable-radix-cache",), "needs the radix cache"),
        ({"PBKV_ENGINE_HIDDEN_SOURCE": "layer 2"}, (), "the model has layers 1 to 1"),
        ({"PBKV_ENGINE_QUEUE": "lpm"}, (), "choose pbkv"),
        ({"PBKV_ENGINE_QUEUE": "pbkv"}, ("--schedule-policy", "lpm"), "exclude each other"),
    ],
)
def test_a_bad_setting_stops_the_start_with_one_line(start, environ, arguments, word):
    code, said, everything = start(environ, *PLUG_IN, *arguments)

    assert code == 2
    assert len(said) == 1 and word in said[0]
    assert "Traceback" not in everything


def test_a_checkpoint_for_another_model_stops_the_start_with_one_line(start, tmp_path):
    network = pytest.importorskip("pbkv.predict.families", reason="networks need torch")
    from pbkv.predict.network import Shape
    from pbkv.predict.network_checkpoint import save_network
    from pbkv.predict.vocabulary import Vocabulary

    agents = Vocabulary("AB")
    untrained = network.make_network("graphsage", "", Shape(len(agents), 3, 8))
    save_network(tmp_path / "network", untrained, "graphsage", "", agents)
    environ = {
        "PBKV_ENGINE_POLICY": "he",
        "PBKV_ENGINE_PREDICTOR": "checkpoint",
        "PBKV_ENGINE_PREDICTOR_CHECKPOINT": str(tmp_path / "network"),
    }
    code, said, everything = start(environ, *PLUG_IN)

    assert code == 2
    assert len(said) == 1
    assert "for hidden states of 8 numbers; this model's have 128" in said[0]
    assert "Traceback" not in everything


def test_another_sglang_version_stops_the_start_with_one_line(tmp_path):
    """A distribution that claims another version stands before the installed one. The command as a
    user types it: what it takes to import SGLang is part of it."""
    info = tmp_path / "sglang-0.5.99.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.99\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-m", "sglang.launch_server", *words(*PLUG_IN)],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    said, everything = told(ended.stderr)

    assert ended.returncode == 2
    assert len(said) == 1
    assert "supports sglang==0.5.23, but 0.5.99 is installed" in said[0]
    assert "Traceback" not in everything


def test_the_supported_version_is_the_installed_one():
    from pbkv.sglang import SUPPORTED_SGLANG

    assert importlib.metadata.version("sglang") == SUPPORTED_SGLANG
