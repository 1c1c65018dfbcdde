"""The plug-in's LRU makes the decisions of stock SGLang's, call by call."""

import random

import pytest

from pbkv.settings import PolicySettings
from tests.engine.client import Prompts


@pytest.fixture(scope="module")
def lru(start_engine):
    with start_engine(policy=PolicySettings(policy="lru")) as client:
        yield client


def test_hits_are_equal_on_a_trace_that_evicts(lru, stock):
    rng = random.Random(5)
    shared = Prompts(901).new(320)
    private = {w: Prompts(1000 + w).new(700) for w in range(9)}
    lru.flush()
    stock.flush()
    pairs = []
    for call in range(60):
        workflow = rng.choices(range(9), weights=[9, 7, 5, 4, 3, 2, 1, 1, 1])[0]
        length = rng.randrange(100, 700)
        prompt = shared + private[workflow][:length]
        mine = lru.generate(prompt, f"w{workflow}", end=call % 7 == 0)
        pairs.append((mine.cached_tokens, stock.generate(prompt).cached_tokens))

    assert any(mine for mine, _ in pairs)
    assert [mine for mine, _ in pairs] == [theirs for _, theirs in pairs]
    assert stock.metric("sglang:evicted_tokens_total") > 0
