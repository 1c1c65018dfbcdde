"""The command line: quick help, and one line with exit code 2 for what it cannot do."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from services.cli.lazy import COMMANDS
from services.ports import free_port
from services.stack.launch import from_json, to_json
from services.stack.settings import StackSettings


def pbkv(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    argv = [sys.executable, "-m", "services.cli.main", *words]
    return subprocess.run(
        argv, capture_output=True, text=True, env=environ, timeout=60, check=False
    )


def test_help_lists_the_commands_without_importing_them(tmp_path: Path) -> None:
    code = (
        "import sys; from services.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'ray','torch','fastapi','redis','pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    for name in ("up", "serve", "bench", "version"):
        assert f"\n  {name} " in done.stdout
    assert done.stdout.endswith("[]\n")


def test_version(tmp_path: Path) -> None:
    done = pbkv(tmp_path, "version")
    assert done.returncode == 0
    assert done.stdout.startswith("pbkv 0.")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    module, _, attribute = COMMANDS[name][0].partition(":")
    top = typer.main.get_command(getattr(importlib.import_module(module), attribute))
    for command in (top, *getattr(top, "commands", {}).values()):
        with command.make_context(f"pbkv {name}", [], resilient_parsing=True) as context:
            assert f"Usage: pbkv {name}" in command.get_help(context)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["up", "--port", "high"], "'--port'"),
        (["up", "--replcas", "2"], "No such option: --replcas"),
        (["up", "--replicas", "0"], "replicas is 0"),
        (["up", "--port", "65535", "--routers", "2"], "not within 1 to 65535"),
        (["up", "--policy", "best"], "unknown policy 'best'; choose one of: lru, "),
        (["up", "--model", "gpt-9"], "unknown model 'gpt-9'"),
        (["up", "--device", "tpu"], "unknown device 'tpu'; choose one of: auto, cpu, cuda"),
        (["up", "--redis-url", "redis://u:secret@127.0.0.1:1/0"], "redis://127.0.0.1:1/0 does not"),
        (["up", "--redis-url", "here"], "redis URL: it must start with one of redis://"),
        (["serve", "router", "--redis-url", "here"], "must start with one of redis://"),
        (["serve", "replica", "--model", "tiny", "--redis-url", "here"], "must start with one of"),
        (["serve", "replica", "--model", "gpt-9"], "unknown model 'gpt-9'"),
        (["serve", "replica"], "Missing option '--model'"),
        (["serve", "engine", "--pbkv-policy", "best"], "unknown policy 'best'"),
        (["serve", "engine", "--pbkv-option", "redis_url=redis://r"], "set together"),
        (["serve", "engine", "--pbkv-option", "gamma"], "'gamma' is not of the form NAME=VALUE"),
        (["up", "--policy-option", "gama=1"], "unknown setting PBKV_ENGINE_GAMA"),
        (["up", "--policy-option", "gamma=7"], "gamma is 7.0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, words: list[str], message: str
) -> None:
    if words[0] == "up" and "--port" not in words:
        words = [*words, "--port", str(free_port())]
    done = pbkv(tmp_path, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("pbkv: ")
    assert len(done.stderr.splitlines()) == 1
    assert "secret" not in done.stderr


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = pbkv(tmp_path, "up", "--port", str(port))
    assert done.returncode == 2
    assert done.stderr == f"pbkv: port {port} is in use; choose another with --port\n"


def test_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"num_hidden_layers": 64, "num_attention_heads": 64, "hidden_size": 8192}'
    )
    done = pbkv(
        tmp_path,
        *("up", "--port", str(free_port()), "--model", str(tmp_path)),
        *("--device", "cpu", "--kv-tokens", "1000000"),
    )
    assert done.returncode == 2
    assert "not enough memory: 2 replicas need about" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kv-tokens", "40"), "kv tokens 40 hold no request"),
        (
            ("--kv-tokens", "4096", "--context-length", "4096"),
            "a pool of kv_tokens 4096 holds 4064 at most; longer prompts would wait for ever",
        ),
    ],
)
def test_a_pool_that_cannot_hold_the_longest_prompt_is_refused(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "config.json").write_text(
        '{"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 8}'
    )
    model = ("--model", str(tmp_path), "--device", "cpu")
    done = pbkv(tmp_path, "up", "--port", str(free_port()), *model, *words)

    assert done.returncode == 2
    assert message in done.stderr


def test_settings_of_a_stack_survive_the_trip_to_its_process() -> None:
    settings = StackSettings(port=33800, state_dir=Path("/state"), engine_args=("--a", "b"))
    assert from_json(to_json(settings)) == settings


@pytest.mark.parametrize("words", [(), ("load",), ("experiments",)])
def test_without_a_command_the_help_keeps_its_lines(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = pbkv(tmp_path, *words)

    assert done.returncode == 2
    assert done.stderr.startswith("Usage: pbkv")
    assert "\nCommands:\n" in done.stderr
