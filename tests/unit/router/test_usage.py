"""Token counts of answers."""

import pytest

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
    assert Usage.of_body(body) == expected
