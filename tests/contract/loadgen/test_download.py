"""Data sets come whole and with the right hash, or not at all, whatever the server does."""

import hashlib
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from typer.testing import CliRunner

from loadgen import datasets
from loadgen.download import download
from loadgen.errors import DownloadFailed
from services.cli.main import app

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Serves ``content`` at any path. Each of ``cuts`` ends one answer after so many bytes."""

    def __init__(self):
        self.content = CONTENT
        self.status = 200
        self.ranges = True
        self.cuts = []
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *words):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request):
        self.asked.append((request.path, request.headers.get("Range")))
        if self.status != 200:
            request.send_error(self.status)
            return
        first = 0
        if self.ranges and (wanted := request.headers.get("Range")):
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if first and first >= len(self.content):
            request.send_error(416)
            return
        body = self.content[first:]
        request.send_response(206 if first else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


@pytest.fixture
def fetch(server, tmp_path):
    """Fetches to ``tmp_path/deep/file``; pauses are noted, not slept."""
    pauses = []

    def run():
        with httpx.Client(trust_env=False) as client:
            return download(
                client,
                f"{server.url}/file",
                tmp_path / "deep" / "file",
                SHA256,
                limit_bytes=len(CONTENT),
                pause=pauses.append,
            )

    run.path, run.part, run.pauses = tmp_path / "deep/file", tmp_path / "deep/file.part", pauses
    return run


def test_a_file_is_fetched_once(fetch, server):
    assert fetch() is True
    assert fetch.path.read_bytes() == CONTENT
    assert fetch() is False
    assert len(server.asked) == 1
    assert list(fetch.path.parent.iterdir()) == [fetch.path]


def test_a_cut_transfer_goes_on_where_it_was(fetch, server):
    server.cuts = [1000, 500]
    assert fetch() is True
    assert fetch.path.read_bytes() == CONTENT
    assert [asked for _, asked in server.asked] == [None, "bytes=1000-", "bytes=1500-"]
    assert fetch.pauses == [1.0, 2.0]


def test_a_transfer_that_is_cut_again_and_again_is_continued_by_the_next_call(fetch, server):
    server.cuts = [1000, 1000, 1000]
    with pytest.raises(DownloadFailed, match="the same command continues"):
        fetch()
    assert not fetch.path.exists()
    assert fetch() is True
    assert server.asked[-1][1] == "bytes=3000-"
    assert fetch.path.read_bytes() == CONTENT


def test_a_server_without_ranges_starts_again(fetch, server):
    server.ranges, server.cuts = False, [1000]
    assert fetch() is True
    assert fetch.path.read_bytes() == CONTENT


def test_all_there_but_not_yet_renamed(fetch, server):
    fetch.part.parent.mkdir()
    fetch.part.write_bytes(CONTENT)
    assert fetch() is True
    assert fetch.path.read_bytes() == CONTENT


def test_another_content_is_refused_and_the_old_file_stays(fetch, server):
    fetch.path.parent.mkdir()
    fetch.path.write_text("what the user had")
    server.content = b"x" * len(CONTENT)
    with pytest.raises(DownloadFailed, match="SHA-256 differs"):
        fetch()
    assert fetch.path.read_text() == "what the user had"
    assert not fetch.part.exists()


def test_a_file_that_is_too_long_is_not_read_to_its_end(fetch, server):
    server.content = CONTENT * 100
    with pytest.raises(DownloadFailed, match="longer than"):
        fetch()
    assert not fetch.path.exists()
    server.content = CONTENT
    assert fetch() is True


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_refusal_is_said_and_not_repeated(fetch, server, status):
    server.status = status
    with pytest.raises(DownloadFailed, match=f"answered {status}"):
        fetch()
    assert len(server.asked) == 1


def test_nobody_listens(fetch, server):
    server.close()
    with pytest.raises(DownloadFailed, match=r"[Cc]onnect"):
        fetch()


def load_data(*words):
    return CliRunner().invoke(app, ["load", "data", *words])


@contextmanager
def pinned(name, **changes):
    """Another file in place of a data set."""
    was = datasets.DATA_SETS[name]
    datasets.DATA_SETS[name] = replace(was, **changes)
    try:
        yield datasets.DATA_SETS[name]
    finally:
        datasets.DATA_SETS[name] = was


def test_the_command_puts_the_file_where_data_looks_for_it(server, tmp_path):
    with pinned("hover", sha256=SHA256, num_bytes=len(CONTENT)) as file:
        done = load_data("hover", "hover", "--out", str(tmp_path), "--source", server.url)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "hover/hover_dev_release_v1.1.json").read_bytes() == CONTENT
    assert server.asked == [(f"/{file.host_path}", None)]
    assert "MIT" in done.stdout and f"--data {tmp_path}" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["swebench"], 2, "captured traces need no data"),
        (["hoover"], 2, "there are: hover, financebench"),
        (["hover", "--source", "ftp://x"], 2, "https://"),
        (["hover", "--source", "http://[x"], 1, "http://[x"),
        (["hover", "--source", "{url}"], 1, "answered 404"),
        (["hover", "--source", "{url}", "--out", "/dev/null/x"], 2, "cannot write"),
    ],
)
def test_what_cannot_be_fetched_is_one_line(server, tmp_path, words, code, said):
    server.status = 404
    words = [word.format(url=server.url) for word in words]
    done = load_data(*words, *([] if "--out" in words else ["--out", str(tmp_path)]))
    assert done.exit_code == code, done.output
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
