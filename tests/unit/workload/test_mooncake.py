from __future__ import annotations

import json
from pathlib import Path

import pytest

from pbkv.workload import WorkloadDataError
from pbkv.workload.mooncake import is_mooncake, mooncake_workflows, read_mooncake


def _trace(path: Path, *requests: tuple[int, int, int, list[int]]) -> Path:
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    path.write_text("\n".join(json.dumps(dict(zip(names, r, strict=True))) for r in requests))
    return path


def test_a_prompt_that_goes_on_is_the_next_turn_of_its_conversation(tmp_path: Path) -> None:
    file = _trace(
        tmp_path / "trace.jsonl",
        (0, 1100, 40, [1, 2, 3]),
        (500, 600, 10, [1, 9]),
        (2000, 1700, 20, [1, 2, 4, 5]),
    )
    chat, other = mooncake_workflows(read_mooncake(file))

    assert [call.output_tokens for call in chat.calls] == [40, 20]
    assert list(chat.prompt_tokens()) == [1100, 1700]
    assert chat.calls[0].pause_s == 2.0
    # Block 1 is the same text in both conversations.
    assert other.calls[0].added[0] == chat.calls[0].added[0]


def test_requests_are_put_in_order_of_time(tmp_path: Path) -> None:
    file = _trace(tmp_path / "trace.jsonl", (900, 10, 1, [2]), (100, 20, 1, [1]))

    assert [request.input_tokens for request in read_mooncake(file)] == [20, 10]


def test_only_its_own_format_is_recognised(tmp_path: Path) -> None:
    assert is_mooncake(_trace(tmp_path / "trace.jsonl", (0, 10, 1, [1])))
    (tmp_path / "other.jsonl").write_text('{"kind": "invocation"}\n')
    assert not is_mooncake(tmp_path / "other.jsonl")
    assert not is_mooncake(tmp_path / "missing.jsonl")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "line 1 is no request"),
        ('{"timestamp": 1}', "line 1 is no request"),
        (
            '{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}',
            "do not cover",
        ),
        (
            '{"timestamp": 0, "input_length": Infinity, "output_length": 1, "hash_ids": [1]}',
            "line 1 is no request",
        ),
        (
            '{"timestamp": NaN, "input_length": 9, "output_length": 1, "hash_ids": [1]}',
            "timestamp is no number",
        ),
        ("", "holds no request"),
    ],
)
def test_a_damaged_trace_is_named(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(line)

    with pytest.raises(WorkloadDataError, match=message):
        read_mooncake(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadDataError, match="cannot read"):
        read_mooncake(tmp_path / "none.jsonl")
