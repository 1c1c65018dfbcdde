"""Start and end of an engine process, with a small web server in the engine's place."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

import services.engine.process as process
from services.engine import EngineExited, EngineNotReady, EngineOptions, EngineProcess
from services.ports import free_port
from tests.unit.services.processes import read_pid, runs

SERVE = """
import http.server, os, signal, sys
if "--deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if "--never" in sys.argv else 200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health)
open(sys.argv[2], "w").write(f"{os.getpid()}\\n")
server.serve_forever()
"""
FAIL = """
print("loading", "", "a bad prompt", "obj=Generate()", "ValueError: no memory", sep="\\n")
raise SystemExit(3)
"""


@pytest.fixture
def options(tmp_path: Path) -> EngineOptions:
    return EngineOptions(
        model_path=tmp_path,
        served_model_name="tiny",
        port=free_port(),
        log_path=tmp_path / "logs" / "engine.log",
    )


def stand_in(monkeypatch: pytest.MonkeyPatch, code: str, *words: object) -> None:
    argv = [sys.executable, "-c", code, *map(str, words)]
    monkeypatch.setattr(process, "command", lambda _options: argv)


def test_ready_alive_stopped(
    monkeypatch: pytest.MonkeyPatch, options: EngineOptions, tmp_path: Path
) -> None:
    stand_in(monkeypatch, SERVE, options.port, tmp_path / "pid")
    engine = EngineProcess(options)
    assert not engine.is_alive()
    engine.start()
    assert engine.wait_ready(30) >= 0
    assert engine.is_alive()
    assert engine.is_healthy()
    child = read_pid(tmp_path / "pid")
    engine.stop()
    assert not engine.is_alive()
    assert not engine.is_healthy()
    assert not runs(child)
    engine.stop()


def test_the_thread_that_started_it_may_end(
    monkeypatch: pytest.MonkeyPatch, options: EngineOptions, tmp_path: Path
) -> None:
    stand_in(monkeypatch, SERVE, options.port, tmp_path / "pid")
    engine = EngineProcess(options)
    thread = threading.Thread(target=engine.start)
    thread.start()
    thread.join()
    engine.wait_ready(30)
    assert engine.is_alive()
    engine.stop()


def test_one_that_ignores_sigterm_is_killed(
    monkeypatch: pytest.MonkeyPatch, options: EngineOptions, tmp_path: Path
) -> None:
    stand_in(monkeypatch, SERVE, options.port, tmp_path / "pid", "--deaf")
    engine = EngineProcess(options)
    engine.start()
    engine.wait_ready(30)
    child = read_pid(tmp_path / "pid")
    engine.stop(grace_s=0.2)
    assert not runs(child)
    assert engine.returncode == 137


def test_an_early_end_is_told_at_once_and_without_prompts(
    monkeypatch: pytest.MonkeyPatch, options: EngineOptions
) -> None:
    stand_in(monkeypatch, FAIL)
    engine = EngineProcess(options)
    engine.start()
    with pytest.raises(EngineExited, match="exited with status 3") as caught:
        engine.wait_ready(600)
    assert caught.value.log_tail == ("loading", "ValueError: no memory")
    assert caught.value.reason == "the engine exited with status 3: ValueError: no memory"


def test_not_ready_in_time(
    monkeypatch: pytest.MonkeyPatch, options: EngineOptions, tmp_path: Path
) -> None:
    stand_in(monkeypatch, SERVE, options.port, tmp_path / "pid", "--never")
    engine = EngineProcess(options)
    engine.start()
    read_pid(tmp_path / "pid")
    with pytest.raises(EngineNotReady, match=r"was not ready after 0\.3 s"):
        engine.wait_ready(0.3)
    assert engine.is_alive()
    engine.stop(grace_s=0)


def test_stop_before_the_start_is_harmless(options: EngineOptions) -> None:
    EngineProcess(options).stop()
