import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbkv.errors import InvalidInvocation
from pbkv.invocation import MAX_NAME_CHARS, UNNAMED_AGENT, Invocation

names = st.text(min_size=1, max_size=20)


@given(
    workflow=names,
    agent=names,
    step=st.integers(0, 10**6),
    seq=st.none() | st.integers(0, 2**53),
    end=st.booleans(),
)
def test_params_round_trip(workflow, agent, step, seq, end):
    sent = Invocation(workflow, agent, at_s=3.0, step=step, seq=seq, end=end)

    assert Invocation.from_params(sent.to_params(), at_s=3.0) == sent


def test_params_are_scalars_as_the_engine_requires():
    params = Invocation("w", "a", at_s=0.0, step=1, seq=2, end=True).to_params()

    assert all(type(value) in (str, int, bool) for value in params.values())


def test_agent_may_be_left_out():
    assert Invocation.from_params({"workflow": "w"}, at_s=0.0).agent == UNNAMED_AGENT


@pytest.mark.parametrize(
    ("params", "word"),
    [
        (None, "object"),
        ([], "object"),
        ({}, "missing"),
        ({"workflow": ""}, "non-empty"),
        ({"workflow": 7}, "non-empty string"),
        ({"workflow": "x" * (MAX_NAME_CHARS + 1)}, "limit"),
        ({"workflow": "w", "agent": ["a"]}, "agent"),
        ({"workflow": "w", "step": -1}, "step"),
        ({"workflow": "w", "step": True}, "step"),
        ({"workflow": "w", "seq": 1.5}, "seq"),
        ({"workflow": "w", "end": "yes"}, "end"),
        ({"workflow": "w", "agnet": "a"}, "agnet"),
    ],
)
def test_malformed_params_are_refused_with_a_reason(params, word):
    with pytest.raises(InvalidInvocation, match=word):
        Invocation.from_params(params, at_s=0.0)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_is_read_or_refused(value):
    with contextlib.suppress(InvalidInvocation):
        Invocation.from_params({"workflow": value}, at_s=0.0)
