"""How much of a victim goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbkv.errors import SettingsError
from pbkv.events import EventKind, WorkflowEvent
from pbkv.invocation import Invocation
from pbkv.policy import CacheNode, Tier, make_policy
from pbkv.policy.eviction_unit import LEAST_SHARE, EvictionUnit
from pbkv.settings import PolicySettings

SIZES = st.integers(min_value=1, max_value=100_000)


@given(node=SIZES, needed=SIZES, pool=SIZES, page=st.sampled_from((1, 16, 64)))
def test_what_goes_is_enough_and_what_stays_is_whole_pages(
    node: int, needed: int, pool: int, page: int
) -> None:
    kept = EvictionUnit.PAGE.kept_tokens(node, needed, pool_tokens=pool, page_size=page)

    gone = node - kept
    assert kept % page == 0
    assert 0 <= kept < node
    assert gone == node or gone >= max(needed, int(LEAST_SHARE * pool))
    # No page more than that goes.
    assert gone < max(needed, LEAST_SHARE * pool, 1) + page or kept == 0
    assert EvictionUnit.NODE.kept_tokens(node, needed, pool_tokens=pool, page_size=page) == 0


def test_an_unknown_unit_is_refused_with_the_choices() -> None:
    with pytest.raises(SettingsError, match="unknown eviction unit 'byte'; choose one of: node, "):
        make_policy(PolicySettings(eviction_unit="byte"))


@pytest.mark.parametrize(("unit", "kept_of_active"), [("node", 0), ("page", 96)])
def test_what_retired_goes_whole(unit: str, kept_of_active: int) -> None:
    policy = make_policy(PolicySettings(policy="lae", eviction_unit=unit))
    node = CacheNode(1, num_tokens=128)
    policy.on_store(node, Tier.DEVICE)
    invocation = Invocation("w", "A", at_s=0.0)
    policy.on_event(WorkflowEvent.invoke(invocation))
    policy.on_access(node, invocation)

    assert policy.kept_tokens(node, 20, pool_tokens=640, page_size=16) == kept_of_active
    policy.on_event(WorkflowEvent(EventKind.TERMINATE, "w", at_s=1.0))
    assert policy.kept_tokens(node, 20, pool_tokens=640, page_size=16) == 0
