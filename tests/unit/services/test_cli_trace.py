"""``pbkv trace``: what it writes and shows, and how it ends on bad input."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pbkv.trace import read_traces
from services.cli.main import app

SAMPLES = Path(__file__).parents[1] / "trace" / "samples"


def run(*words):
    return CliRunner().invoke(app, ["trace", *map(str, words)])


@pytest.fixture
def imported(tmp_path):
    out = tmp_path / "traces.jsonl"
    assert run("import", "--from", "langsmith", SAMPLES / "langsmith.jsonl", out).exit_code == 0
    return out


def test_an_import_becomes_a_trace_file_of_either_form(imported, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    out = tmp_path / "traces.parquet"
    result = run("import", "--from", "langsmith", SAMPLES / "langsmith.jsonl", out)

    assert (result.exit_code, result.output) == (0, f"wrote 5 records to {out}\n")
    assert [c.record for c in read_traces(out)] == [c.record for c in read_traces(imported)]


def test_finished_ends_every_workflow(tmp_path):
    out = tmp_path / "traces.jsonl"
    assert run("import", "--from", "autogen", SAMPLES / "autogen.log", out).exit_code == 0
    assert "end" not in [json.loads(line)["kind"] for line in out.read_text().splitlines()]
    run("import", "--from", "autogen", SAMPLES / "autogen.log", out, "--finished")

    assert [json.loads(line)["kind"] for line in out.read_text().splitlines()].count("end") == 2


def test_show_tells_what_is_in_a_file(imported):
    result = run("show", imported)

    assert result.exit_code == 0
    for words in ("calls", "workflows", "planner", "critic 100%", "60.0%"):
        assert words in result.output


def test_show_lists_the_calls_of_one_workflow(imported):
    result = run("show", imported, "--workflow", "t2")

    assert result.exit_code == 0
    assert "planner" in result.output and "critic" not in result.output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("show", "absent.jsonl"), "absent.jsonl: No such file"),
        (("show", "traces.csv"), "must end with .jsonl or .parquet"),
        (("import", "--from", "nobody", "a", "b.jsonl"), "choose one of: langsmith"),
        (("import", "--from", "otel", "absent", "b.jsonl"), "absent: No such file"),
        (("join", "a.jsonl", "b.jsonl", "--hidden", "c"), "must end with .parquet"),
        (("export", "b.jsonl", "--redis-url", "nonsense"), "redis URL"),
        (("export", "b.jsonl", "--redis-url", "redis://127.0.0.1:1"), "redis does not answer"),
        (("export", "no/folder/b.jsonl", "--redis-url", "redis://127.0.0.1:1"), "No such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, words, problem):
    monkeypatch.chdir(tmp_path)
    result = run(*words)

    assert result.exit_code == 2
    assert problem in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_workflow_that_is_not_there(imported):
    result = run("show", imported, "--workflow", "nothing like it")

    assert (result.exit_code, "holds no workflow" in result.output) == (2, True)


def test_a_log_without_calls(tmp_path):
    (tmp_path / "log").write_text('{"type": "Message"}\n')
    result = run("import", "--from", "autogen", tmp_path / "log", tmp_path / "b.jsonl")

    assert (result.exit_code, "no finished model call" in result.output) == (2, True)
