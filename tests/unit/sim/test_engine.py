from __future__ import annotations

from dataclasses import replace

import pytest

from pbkv.errors import SettingsError
from pbkv.sim import EngineLimits, Simulation, simulate
from pbkv.sim.engine import SimulatedEngine
from pbkv.sim.loop import LoopHooks
from pbkv.workload import ScriptedCall, ScriptedWorkflow, Segment
from tests.unit.sim.scenes import COSTS, assert_sound, hover, pressed, workflow


def _alone(**limits: int) -> Simulation:
    """One workflow at a time, pages of four tokens."""
    values = {"kv_tokens": 1000, "page_size": 4, "host_ratio": 0} | limits
    return Simulation("lru", "fcfs", 1, EngineLimits(**values), COSTS)


def test_a_call_takes_its_prefill_and_one_decode_step_per_further_token() -> None:
    result = simulate(_alone(), [workflow("w", (100, 5))])

    assert result.ttft_mean_s == pytest.approx(0.5 + 100 / 1000)
    assert result.latency_mean_s == pytest.approx(0.6 + 4 * 0.25)
    assert result.hit_rate == 0.0


def test_the_next_call_finds_prompt_and_reply_but_the_last_token_and_half_pages() -> None:
    result = simulate(_alone(), [workflow("w", (100, 7), (20, 1))])

    # 100 + 6 tokens of the first call have KV cache, 104 of them in whole pages.
    assert result.prompt_tokens == 100 + 127
    assert result.hit_rate == pytest.approx(104 / 227)
    assert result.latency_mean_s == pytest.approx(0.6 + 6 * 0.25 + 0.5 + 23 / 1000)


def test_a_prompt_that_is_cached_whole_computes_its_last_page_anew() -> None:
    same = (Segment("same", 40),)
    call = ScriptedCall("A", "c", (), same, 1, keep_output=False)
    result = simulate(_alone(), [ScriptedWorkflow("w", {"c": ()}, (call, call))])

    assert result.hit_rate == pytest.approx(36 / 80)


def test_a_long_prompt_is_prefilled_in_chunks() -> None:
    result = simulate(_alone(chunked_prefill_size=40), [workflow("w", (100, 1))])

    assert result.ttft_mean_s == pytest.approx(3 * 0.5 + 100 / 1000)


def test_pauses_are_kept() -> None:
    result = simulate(_alone(), [workflow("w", (4, 1), (4, 1), pause_s=10.0)])

    assert result.latency_mean_s == pytest.approx(10.0 + 2 * 0.5 + 9 / 1000)


def test_replies_longer_than_reserved_lead_to_a_retraction_and_all_calls_end() -> None:
    scripts = [workflow(f"w{n}", (4, 1), (40, 100), pause_s=1.0 + n) for n in range(8)]
    limits = EngineLimits(kv_tokens=600, page_size=4, new_token_ratio=(0.1, 0.01, 10))
    simulation = Simulation("lru", "fcfs", 8, limits, COSTS, max_new_tokens=101)
    result = simulate(simulation, scripts, hooks=LoopHooks(after_step=assert_sound))

    assert result.retractions > 0
    assert result.workflows == 8


def test_without_replies_longer_than_told_nothing_is_retracted() -> None:
    scripts = [workflow(f"w{n}", (40, 100)) for n in range(4)]
    limits = EngineLimits(kv_tokens=420, page_size=4)
    result = simulate(Simulation("lru", "fcfs", 4, limits, COSTS), scripts)

    assert result.retractions == 0


def test_no_more_requests_run_than_allowed() -> None:
    most = []
    limits = EngineLimits(kv_tokens=4000, max_running_requests=2)
    scripts = [workflow(f"w{n}", (40, 10)) for n in range(6)]

    def watch(engine: SimulatedEngine) -> None:
        most.append(len(engine.running))

    hooks = LoopHooks(after_step=watch)
    simulate(Simulation("lru", "fcfs", 6, limits, COSTS), scripts, hooks=hooks)

    assert max(most) == 2


@pytest.mark.parametrize("policy", ["lru", "session", "kvflow", "lae", "he", "pbkv", "oracle"])
@pytest.mark.parametrize("queue", ["fcfs", "lpm", "hrrn", "shortest-prefill-first", "pbkv"])
def test_every_step_of_a_pressed_engine_leaves_sound_accounts(policy: str, queue: str) -> None:
    scripts = hover(16)
    result = simulate(pressed(policy, queue), scripts, hooks=LoopHooks(after_step=assert_sound))

    assert result.workflows == 16
    assert result.invocations == sum(len(script.calls) for script in scripts)
    assert sum(result.evicted_tokens.values()) > 0


def test_a_call_larger_than_the_pool_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="a call of big needs"):
        simulate(_alone(), [workflow("big", (2000, 1))])


@pytest.mark.parametrize(
    ("field", "value"), [("kv_tokens", 3), ("host_ratio", -1.0), ("chunked_prefill_size", 2)]
)
def test_limits_that_cannot_work_are_refused(field: str, value: float) -> None:
    with pytest.raises(SettingsError, match=field):
        replace(EngineLimits(kv_tokens=1000, page_size=4), **{field: value})
