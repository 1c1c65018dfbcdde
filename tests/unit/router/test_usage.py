"""Token counts of answers."""

import pytest

from router.answer import AnswerFacts
from router.usage import Usage


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":2}}', Usage(3, 0, 2)),
        (
            b'{"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":1}}}',
            Usage(3, 1, 0),
        ),
        (b'{"usage":{"prompt_tokens":3,"prompt_tokens_details":null}}', Usage(3, 0, 0)),
        (b'{"usage":{"prompt_tokens":"3","prompt_tokens_details":[1]}}', Usage(0, 0, 0)),
        (b'{"usage":{"input_tokens":3,"output_tokens":2}}', Usage(3, 0, 2)),
        (b'{"usage":null}', None),
        (b'{"no":1}', None),
        (b'["usage"]', None),
        (b'"usage" is not JSON', None),
        (b"", None),
    ],
)
def test_of_body(body, expected):
    assert AnswerFacts.of_body(body).usage == expected


def test_what_a_whole_answer_says_of_itself():
    chat = b'{"id":"r1","choices":[{"finish_reason":"length","text":"x"}]}'
    assert AnswerFacts.of_body(chat) == AnswerFacts("r1", "length")
    assert AnswerFacts.of_body(b'{"id":"r2","status":"completed"}') == AnswerFacts(
        "r2", "completed"
    )
    assert AnswerFacts.of_body(b'{"id":7,"choices":[]}') == AnswerFacts()


def test_what_a_stream_says_of_itself():
    facts = AnswerFacts()
    facts.notice(b'data: {"id":"r1","choices":[{"finish_reason":null}]}\n\n')
    quoted = rb'{"id":"r2","choices":[{"delta":{"content":"\"finish_reason\":\"bad\""}}]}'
    facts.notice(b"data: " + quoted + b"\n\n")
    assert facts == AnswerFacts("r1")
    facts.notice(b'data: {"id":"r1","choices":[{"finish_reason": "stop"}]}\n\n')
    assert facts == AnswerFacts("r1", "stop")
