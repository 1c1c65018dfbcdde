"""Streams pass byte for byte, however they are cut into chunks."""

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from router.sse import EventFilter
from router.usage import Usage

TRICKY = 'a "usage": {"prompt_tokens": 9} in the text, \n\n and wörds'
USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 3},
}


def event(**chunk):
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


TEXT = [
    event(choices=[{"delta": {"content": TRICKY}}], usage=None),
    b": a comment\n\n",
    event(choices=[{"delta": {"content": "b"}}], usage={"prompt_tokens": 5}),
]
USAGE_EVENT = event(choices=[], usage=USAGE)
DONE = b"data: [DONE]\n\n"
STREAM = b"".join([*TEXT, USAGE_EVENT, DONE])


def run(stream, cuts, strip):
    events = EventFilter(strip_usage=strip)
    edges = [0, *sorted(cuts), len(stream)]
    out = [events.feed(stream[a:b]) for a, b in itertools.pairwise(edges) if b > a]
    return events, out, b"".join([*out, events.flush()])


cuts = st.lists(st.integers(0, len(STREAM)), max_size=12)


@given(cuts)
def test_passes_unchanged(cuts):
    events, _, out = run(STREAM, cuts, strip=False)
    assert out == STREAM
    assert events.facts.usage == Usage(5, 3, 2)


@given(cuts)
def test_strips_the_usage_event_alone(cuts):
    events, _, out = run(STREAM, cuts, strip=True)
    assert out == STREAM.replace(USAGE_EVENT, b"")
    assert events.facts.usage == Usage(5, 3, 2)


@given(cuts)
def test_never_ends_inside_an_event(cuts):
    _, forwarded, _ = run(STREAM, cuts, strip=True)
    for end in range(len(forwarded)):
        assert b"".join(forwarded[: end + 1]).endswith(b"\n\n") or not any(forwarded[: end + 1])


@given(st.lists(st.integers(0, len(STREAM) + 9), max_size=5))
def test_crlf_events_pass_too(cuts):
    stream = b"".join([*TEXT, USAGE_EVENT, DONE]).replace(b"\n\n", b"\r\n\r\n")
    _, _, out = run(stream, [cut for cut in cuts if cut < len(stream)], strip=True)
    assert out == stream.replace(USAGE_EVENT.replace(b"\n\n", b"\r\n\r\n"), b"")


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_pass(data, cut):
    _, _, out = run(data, [min(cut, len(data))], strip=False)
    assert out == data


def test_whole_events_are_not_held_back():
    events = EventFilter(strip_usage=True)
    assert events.feed(TEXT[0] + TEXT[2][:10]) == TEXT[0]
    assert events.feed(TEXT[2][10:]) == TEXT[2]


def test_responses_api_reports_its_usage():
    events = EventFilter(strip_usage=False)
    usage = {"input_tokens": 4, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 2}}
    events.feed(event(type="response.completed", response={"usage": usage}))
    assert events.facts.usage == Usage(4, 2, 1)
