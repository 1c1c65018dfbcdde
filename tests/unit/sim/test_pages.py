from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pbkv.sim.pages import PageChain, segment_id

_TEXTS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 13)), max_size=8)


def _chain(text: list[tuple[int, int]], page_size: int) -> PageChain:
    chain = PageChain(page_size)
    for segment, tokens in text:
        chain.extend(segment, tokens)
    return chain


def _tokens(text: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What the text would be as tokens: each is its segment and its place there."""
    return [(segment, offset) for segment, tokens in text for offset in range(tokens)]


@given(_TEXTS, _TEXTS, st.integers(1, 5))
def test_pages_are_shared_exactly_as_far_as_the_tokens_agree(left, right, page_size) -> None:
    agree = 0
    for a, b in zip(_tokens(left), _tokens(right), strict=False):
        if a != b:
            break
        agree += 1
    one, other = _chain(left, page_size).ids, _chain(right, page_size).ids
    shared = sum(a == b for a, b in zip(one, other, strict=False))

    assert shared == agree // page_size
    assert one[:shared] == other[:shared]


@given(_TEXTS, st.integers(1, 5))
def test_a_copy_grows_on_its_own(text, page_size) -> None:
    chain = _chain(text, page_size)
    before = list(chain.ids)
    copy = chain.copy()
    copy.extend(9, 11)

    assert chain.ids == before
    assert copy.num_tokens == chain.num_tokens + 11
    assert len(chain.ids) == chain.num_tokens // page_size


def test_a_seed_has_the_same_number_in_every_process() -> None:
    assert segment_id("hover/system") == 17011039316857779
