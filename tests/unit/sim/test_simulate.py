from __future__ import annotations

from dataclasses import replace

import pytest

from pbkv.errors import SettingsError, UnknownPolicy
from pbkv.settings import PolicySettings
from pbkv.sim import EngineLimits, SimulationResult, simulate
from pbkv.sim.simulate import policy_names
from tests.unit.sim.scenes import hover, pressed

# Prompt tokens found on the device, and tokens evicted from it, of 40 HoVer-like workflows.
# They move when a policy's order moves: then say so in the change log.
GOLDEN = {
    "lru": (37568, 136432),
    "kvflow": (55584, 122752),
    "lae": (41440, 132560),
    "he": (92464, 81536),
    "pbkv": (91344, 84832),
    "pbkv-aggressive": (92176, 130992),
    "session": (41440, 132560),
    "oracle": (96096, 82800),
    "oracle-predictor": (86528, 88960),
    "unlimited": (133872, 0),
}


def _cached(result: SimulationResult) -> int:
    return round(result.hit_rate * result.prompt_tokens)


@pytest.mark.parametrize("policy", policy_names())
def test_golden_numbers(policy: str) -> None:
    result = simulate(pressed(policy), hover())
    evicted = sum(tokens for why, tokens in result.evicted_tokens.items() if why != "host")

    assert (_cached(result), evicted) == GOLDEN[policy]


def test_a_run_is_the_same_every_time() -> None:
    assert simulate(pressed("pbkv", "pbkv"), hover()) == simulate(pressed("pbkv", "pbkv"), hover())


def test_forecasts_that_say_nothing_leave_the_order_of_lae() -> None:
    settings = PolicySettings(predictor="none", queue_knowledge=False)

    assert simulate(pressed("he", settings=settings), hover()) == simulate(
        pressed("lae", settings=settings), hover()
    )


def test_worse_forecasts_find_less() -> None:
    right, wrong = (
        simulate(pressed("he", accuracy=accuracy), hover()) for accuracy in ((1.0,), (0.2,))
    )
    assert right.hit_rate != wrong.hit_rate


def test_with_room_for_everything_all_policies_find_the_same() -> None:
    limits = EngineLimits(kv_tokens=200_000, max_running_requests=3)
    found = {_cached(simulate(pressed(p, limits=limits), hover(12))) for p in policy_names()}

    assert len(found) == 1


def test_a_host_tier_turns_misses_into_loads() -> None:
    limits = pressed("lru").limits
    without = simulate(pressed("lru", limits=replace(limits, host_ratio=0.0)), hover())
    with_host = simulate(pressed("lru", limits=replace(limits, host_ratio=8.0)), hover())

    assert without.host_hit_rate == 0.0
    assert with_host.host_hit_rate > 0.2
    assert with_host.latency_mean_s < without.latency_mean_s


def test_prefetch_loads_from_a_larger_host_tier() -> None:
    limits = replace(pressed("pbkv").limits, host_ratio=8.0)
    he, pbkv = (simulate(pressed(p, limits=limits), hover()) for p in ("he", "pbkv"))

    assert he.prefetched_tokens == 0
    assert pbkv.prefetched_tokens > 0
    assert pbkv.hit_rate > he.hit_rate


def test_unknown_names_list_the_choices() -> None:
    with pytest.raises(UnknownPolicy, match="oracle-predictor"):
        simulate(pressed("belady"), hover(2))
    with pytest.raises(SettingsError, match="markov"):
        settings = PolicySettings(predictor="tarot")
        simulate(pressed("he", settings=settings), hover(2))
