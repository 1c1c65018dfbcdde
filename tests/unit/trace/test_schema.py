"""Records: what is refused, with which words, and that every form reads back what was written."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbkv.errors import InvalidTrace
from pbkv.trace import InvocationRecord, RecordKind, TracedCall, read_record, read_traces
from pbkv.trace import write_traces as write
from pbkv.trace.record import FIELD_NAMES
from pbkv.trace.wire import from_fields, to_fields

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")

DOCS = Path(__file__).parents[3] / "docs" / "traces.md"
CALL = InvocationRecord(RecordKind.CALL, "t", "w", 1, 10.0, 12.5, agent="A", prompt_tokens=7)

text = st.text(st.characters(codec="utf-8"), max_size=40)
seconds = st.floats(allow_nan=False, allow_infinity=False)
tokens = st.none() | st.integers(0, 2**31 - 1)
records = st.builds(
    InvocationRecord,
    kind=st.sampled_from(RecordKind),
    tenant=text,
    workflow=text.filter(bool),
    seq=st.integers(0, 2**63 - 1),
    sent_at_s=seconds,
    finished_at_s=seconds,
    agent=text,
    application=text,
    step=st.integers(0, 2**63 - 1),
    request_id=text,
    model=text,
    replica=text,
    first_token_at_s=st.none() | seconds,
    prompt_tokens=tokens,
    cached_tokens=tokens,
    completion_tokens=tokens,
    finish_reason=text,
    error=text,
    end=st.booleans(),
    prompt=st.none() | text,
)
states = st.none() | st.lists(
    st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=5
).map(lambda values: np.array(values, dtype=np.float32))


@settings(max_examples=60, deadline=None)
@given(calls=st.lists(st.builds(TracedCall, records, states), max_size=4))
def test_parquet_reads_back_what_was_written(tmp_path_factory, calls):
    path = tmp_path_factory.mktemp("parquet") / "t.parquet"

    assert write(path, calls) == len(calls)

    found = list(read_traces(path))
    assert [call.record for call in found] == [call.record for call in calls]
    for before, after in zip(calls, found, strict=True):
        if before.hidden_state is None:
            assert after.hidden_state is None
        else:
            assert after.hidden_state.dtype == np.float32
            assert after.hidden_state.tobytes() == before.hidden_state.tobytes()


@settings(max_examples=60, deadline=None)
@given(found=st.lists(records, max_size=4))
def test_json_lines_read_back_what_was_written(tmp_path_factory, found):
    path = tmp_path_factory.mktemp("jsonl") / "t.jsonl"
    write(path, map(TracedCall, found))

    assert [call.record for call in read_traces(path)] == found


@given(record=records)
def test_the_stream_reads_back_what_was_written(record):
    fields = {name: value.decode() for name, value in to_fields(record).items()}

    assert from_fields(fields) == record


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seq": "1"}, "seq: "),
        ({"seq": True}, "seq: "),
        ({"seq": -1}, "seq: "),
        ({"sent_at_s": None}, "sent_at_s: "),
        ({"sent_at_s": float("inf")}, "sent_at_s: "),
        ({"agnet": "A"}, "agnet: "),
        ({"workflow": ""}, "workflow: "),
        ({"agent": "x" * 600}, "agent: "),
        ({"kind": "begin"}, "kind: "),
        ({"end": 1}, "end: "),
        ({"prompt_tokens": 1.0}, "prompt_tokens: "),
        ({"schema": 2}, "schema is 2; this version reads schema 1"),
        ({"schema": None}, "schema is missing"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_field(change, words):
    with pytest.raises(InvalidTrace) as problem:
        read_record({**CALL.to_dict(), **change})

    assert str(problem.value).startswith(words)
    assert "\n" not in str(problem.value)


def test_a_missing_field_is_named():
    value = CALL.to_dict()
    del value["workflow"]

    with pytest.raises(InvalidTrace, match=r"^workflow: "):
        read_record(value)


def test_errors_show_no_content():
    with pytest.raises(InvalidTrace) as problem:
        read_record({**CALL.to_dict(), "prompt": ["a secret of the client"]})

    assert "secret" not in str(problem.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 3 is not JSON"),
        ("[1]", "line 3: a record must be an object"),
        ('{"schema": 1}', "line 3: kind: "),
    ],
)
def test_a_bad_line_is_told_by_file_line_and_field(tmp_path, line, words):
    path = tmp_path / "t.jsonl"
    write(path, [TracedCall(CALL)])
    path.write_bytes(path.read_bytes() + b"\n" + line.encode() + b"\n")
    calls = read_traces(path)

    assert next(calls).record == CALL, "what comes before is read"
    with pytest.raises(InvalidTrace, match=re.escape(str(path)) + " " + words):
        next(calls)


def test_files_that_are_not_traces(tmp_path):
    parquet = tmp_path / "t.parquet"
    parquet.write_bytes(b"no parquet at all")
    with pytest.raises(InvalidTrace, match="is not a Parquet file"):
        list(read_traces(parquet))
    with pytest.raises(InvalidTrace, match="No such file"):
        list(read_traces(tmp_path / "absent.parquet"))
    with pytest.raises(InvalidTrace, match="No such file"):
        list(read_traces(tmp_path / "absent.jsonl"))
    with pytest.raises(InvalidTrace, match=r"must end with .jsonl or .parquet"):
        read_traces(tmp_path / "t.csv")


def test_a_parquet_file_of_something_else(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"kind": ["call"]}), path)
    with pytest.raises(InvalidTrace, match="has no column tenant"):
        list(read_traces(path))


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.jsonl"
    write(path, [TracedCall(CALL)])

    def broken():
        yield TracedCall(CALL)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write(path, broken())
    assert len(list(read_traces(path))) == 1


def test_the_documentation_lists_the_fields_in_order():
    rows = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), re.MULTILINE)

    assert tuple(rows[: len(FIELD_NAMES)]) == FIELD_NAMES
    assert rows[len(FIELD_NAMES)] == "hidden_state"
