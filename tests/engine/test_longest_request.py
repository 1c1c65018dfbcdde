"""A pool that is smaller than the context: what it cannot admit is refused, and holds up no one."""

import pytest

POOL, PAGE = 4096, 16
LONGEST = POOL - 2 * PAGE


def generate(lae, ids, max_new_tokens):
    body = lae.body(ids, "long", max_new_tokens=max_new_tokens)
    return lae.http.post("/generate", json=body, timeout=60)


@pytest.mark.parametrize("length", [POOL - 7, POOL - PAGE - 4, LONGEST])
def test_a_prompt_that_the_pool_cannot_admit_is_refused(lae, prompts, length):
    answer = generate(lae, prompts.new(length), 1)

    assert answer.status_code == 400
    # By these words a router knows it for too long a prompt.
    assert "exceeds the maximum allowed length" in answer.text
    assert generate(lae, prompts.new(20), 1).status_code == 200


def test_a_reply_ends_where_the_pool_does(lae, prompts):
    answer = generate(lae, prompts.new(LONGEST - 40), 2000)

    assert answer.status_code == 200
    meta = answer.json()["meta_info"]
    assert meta["finish_reason"]["type"] == "length"
    assert 0 < meta["completion_tokens"] < 40
