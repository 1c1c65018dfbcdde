import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbkv.errors import InvalidEvent
from pbkv.events import EventKind, WorkflowEvent


@given(
    kind=st.sampled_from(EventKind),
    workflow=st.text(min_size=1, max_size=20),
    at_s=st.floats(allow_nan=False, allow_infinity=False),
    agent=st.text(max_size=10),
    seq=st.none() | st.integers(0, 2**53),
)
def test_fields_round_trip(kind, workflow, at_s, agent, seq):
    event = WorkflowEvent(kind, workflow, at_s, agent, seq)

    assert WorkflowEvent.from_fields(event.to_fields()) == event


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "explode", "workflow": "w"},
        {"kind": "start"},
        {"kind": "start", "workflow": ""},
        {"kind": "start", "workflow": "w" * 1000},
        {"kind": "start", "workflow": "w", "seq": "one"},
        {"kind": "start", "workflow": "w", "at": "noon"},
    ],
)
def test_malformed_fields_are_refused(fields):
    with pytest.raises(InvalidEvent):
        WorkflowEvent.from_fields(fields)
