"""The program that ``helm test`` runs, against endpoints that are well and unwell."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.chart.helm import CHART

GOOD = {
    "choices": [{"message": {"role": "assistant", "content": "Hello!"}}],
    "usage": {"completion_tokens": 3},
}


@contextmanager
def router(
    answer: dict[str, Any] = GOOD, *, status: int = 200, pinned: bool = True, key: str = ""
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A router of one model; yields its address and the bodies it got."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if key and self.headers.get("Authorization") != f"Bearer {key}":
                self.reply(401, {"error": {}})
            else:
                self.reply(200, {"data": [{"id": "tiny"}]})

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            bodies.append(json.loads(self.rfile.read(length)))
            self.reply(status, answer)

        def reply(self, code: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            if pinned:
                self.send_header("X-Workflow-ID", self.headers["X-Workflow-ID"])
                self.send_header("X-PBKV-Replica", "r1")
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(url: str, *models: str, seconds: str = "5", key: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(CHART / "files/chat.py"), url, seconds, *models],
        capture_output=True,
        text=True,
        env={"PBKV_API_KEY": key, "no_proxy": "*"},
        timeout=60,
        check=False,
    )


def test_a_stack_that_answers_passes() -> None:
    with router(key="k1") as (url, bodies):
        done = run(url, "tiny", key="k1")
    assert (done.returncode, done.stdout) == (0, "tiny: 3 tokens from r1\n")
    assert [body["model"] for body in bodies] == ["tiny"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"status": 500}, "tiny answered 500"),
        ({"pinned": False}, "not as a pinned workflow"),
        ({"answer": {**GOOD, "usage": {"completion_tokens": 0}}}, "without a token"),
        ({"key": "k1"}, "wants an API key: set tests.apiKeySecret"),
    ],
)
def test_a_stack_that_is_unwell_fails_with_one_line(fault: dict[str, Any], message: str) -> None:
    with router(**fault) as (url, _):
        done = run(url, "tiny")
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_model_that_never_comes_is_named() -> None:
    with router() as (url, _):
        done = run(url, "tiny", "large", seconds="0.1")
    assert done.stderr == "gave up waiting: not served yet: large\n"
    assert done.returncode == 1
