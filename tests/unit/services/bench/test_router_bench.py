"""``pbkv bench router`` end to end with a real router, and what it refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from services.bench.drive import BenchError
from services.bench.router import RouterBench, parse_streams
from services.bench.router_streams import Cadence, Stream, Window, run_window
from services.cli.main import app

CADENCE = Cadence(gap_s=0.02, chunks=5)
SMALL = ["--turns", "1", "--seconds", "0.3", "--gap-ms", "20", "--chunks", "5"]


def bench(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["bench", "router", *args])
    return done.exit_code, done.output


def test_rows_of_a_small_run(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    status, output = bench("--streams", "1,3", *SMALL, "--json", str(path))
    assert status == 0, output
    content = orjson.loads(path.read_bytes())
    assert content["environment"]["finished"] is True
    rows = content["rows"]
    assert [(row["router"], row["streams"]) for row in rows] == [
        ("direct", 1),
        ("pbkv", 1),
        ("direct", 3),
        ("pbkv", 3),
    ]
    for row in rows:
        assert row["errors"] == 0, row["first_error"]
        assert row["chunks"] > 0
        assert row["chunks_per_s"] == pytest.approx(row["chunks"] / 0.3)
        # Chunks cannot come before they are due; the endpoint's clock has steps of 1 ms.
        assert row["late_p50_ms"] > -1
        assert row["late_p50_ms"] <= row["late_p99_ms"]
        if row["router"] == "direct":
            assert row["added_p50_ms"] == row["added_p99_ms"] == 0
            assert row["cpu_ms_per_1000_chunks"] is row["rss_mb"] is None
        else:
            assert row["cpu_ms_per_1000_chunks"] >= 0
            assert row["rss_mb"] > 10


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--streams", "0"], "comma list of numbers"),
        (["--streams", "1,many"], "comma list of numbers"),
        (["--streams", "4,4"], "names a number twice"),
        (["--seconds", "inf"], "finite"),
        (["--seconds", "0.1", "--gap-ms", "100"], "at least three times"),
        (["--against", "other"], "NAME=VALUE"),
        (["--against", "pbkv=http://127.0.0.1:1", "--endpoint-port", "2"], "cannot be called"),
        (["--against", "other=127.0.0.1:1", "--endpoint-port", "2"], "start with http://"),
        (["--against", "other=http://127.0.0.1:1"], "needs --endpoint-port"),
        (["--json", "/proc/nowhere/rows.json"], "/proc/nowhere"),
    ],
)
def test_bad_input_is_one_line(args: list[str], words: str) -> None:
    status, output = bench(*args)
    assert status == 2
    assert words in output
    assert len(output.strip().splitlines()) == 1


def test_streams_are_read_as_they_are_given() -> None:
    assert parse_streams("1,64,1000") == (1, 64, 1000)


def test_a_router_that_is_not_there() -> None:
    with pytest.raises(BenchError, match="cannot connect"):
        asyncio.run(run_window("http://127.0.0.1:1", 2, CADENCE, 0.1, lambda: None))


def test_another_router_needs_a_name_of_its_own() -> None:
    with pytest.raises(BenchError, match="cannot be called direct"):
        RouterBench((1,), 1, 1.0, CADENCE, {"direct": "http://127.0.0.1:1"}, 2)


class Wire(asyncio.Transport):
    """Takes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True


HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def part(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def test_an_event_that_comes_in_pieces_is_one_chunk() -> None:
    window, wire = Window(open=True), Wire()
    stream = Stream(b"ask", Cadence(0.01, 2), window)
    stream.connection_made(wire)
    stream.data_received(HEAD + part(b"dat"))
    assert len(window.lateness_s) == 0
    stream.data_received(part(b"a: {}\n\ndata: {}\n\n") + part(b"data: [DONE]\n\n"))
    assert len(window.lateness_s) == 2
    stream.data_received(part(b"data: {}\n\n") + b"0\r\n\r\n")
    assert len(window.lateness_s) == 2
    # The answer is over, so it asks again, on the same connection.
    assert wire.written == [b"ask", b"ask"]
    assert window.errors == 0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n", "status 503"),
        (HEAD + part(b"data: {}\n\n") + b"0\r\n\r\n", "an answer of 1 chunks instead of 2"),
        (b"nonsense\r\n\r\n", "no HTTP"),
    ],
)
def test_what_is_no_answer_counts_as_an_error(answer: bytes, reason: str) -> None:
    window, wire = Window(), Wire()
    stream = Stream(b"ask", Cadence(0.01, 2), window)
    stream.connection_made(wire)
    stream.data_received(answer)
    assert window.errors == 1
    assert window.first_error.startswith(reason)
    assert wire.aborted


def test_keep_alive_comments_are_no_chunks() -> None:
    window, wire = Window(open=True), Wire()
    stream = Stream(b"ask", Cadence(0.01, 2), window)
    stream.connection_made(wire)
    stream.data_received(HEAD + part(b": keep-alive\n\n"))
    assert window.lateness_s == []
