"""Where workflows come from: names, captured traces, Mooncake traces; and bad ones."""

import json

import pytest

from loadgen.errors import BadLoad
from loadgen.source import load_source
from loadgen.target import Target
from pbkv.trace import InvocationRecord, RecordKind, TracedCall, write_traces


def test_names():
    source = load_source("hover", 3, seed=1)
    assert (source.name, len(source.scripts), source.starts_s) == ("hover", 3, ())
    with pytest.raises(BadLoad, match="financebench, hover, swebench"):
        load_source("nothing", 3, seed=1)


def test_a_mooncake_trace_keeps_its_times(tmp_path):
    path = tmp_path / "trace.jsonl"
    lines = [
        {"timestamp": 5000, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]},
        {"timestamp": 6500, "input_length": 700, "output_length": 5, "hash_ids": [9, 8]},
        {"timestamp": 9000, "input_length": 1200, "output_length": 5, "hash_ids": [1, 3, 4]},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = load_source(str(path), None, seed=0)
    assert source.starts_s == (0.0, 1.5)
    assert [len(script.calls) for script in source.scripts] == [2, 1]
    with pytest.raises(BadLoad, match="holds 2 workflows, not 3"):
        load_source(str(path), 3, seed=0)


def test_a_captured_trace_keeps_its_times(tmp_path):
    path = tmp_path / "captured.jsonl"
    records = [
        InvocationRecord(
            RecordKind.CALL,
            "",
            f"w{number}",
            seq=number,
            sent_at_s=100.0 + 2 * number,
            finished_at_s=101.0 + 2 * number,
            agent="A",
            prompt_tokens=20,
            completion_tokens=4,
            end=True,
        )
        for number in range(3)
    ]
    write_traces(path, [TracedCall(record) for record in records])
    source = load_source(str(path), 2, seed=0)
    assert source.starts_s == (0.0, 2.0)
    assert [list(script.prompt_tokens()) for script in source.scripts] == [[20], [20]]


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", ""])
def test_urls_that_are_none(url):
    with pytest.raises(BadLoad, match="http"):
        Target.of(url)


def test_a_key_is_not_shown():
    target = Target.of("http://x:1/v1/", api_key="secret")
    assert target.url == "http://x:1"
    assert "secret" not in repr(target)
