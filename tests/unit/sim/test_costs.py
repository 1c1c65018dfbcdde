from __future__ import annotations

import pytest

from pbkv.errors import SettingsError
from pbkv.sim.costs import gpu_costs, gpus, models
from pbkv.sim.points import operating_point, other_fits


@pytest.mark.parametrize("model", models())
@pytest.mark.parametrize("gpu", gpus())
def test_every_pair_has_costs_and_room_for_cache(model: str, gpu: str) -> None:
    costs = gpu_costs(model, gpu)

    assert costs.kv_tokens > 10_000
    assert 0 < costs.decode_s(1, 1000) < costs.decode_s(64, 100_000)
    assert costs.prefill_s(0, 0) < costs.prefill_s(1000, 0) < costs.prefill_s(2000, 0)


def test_the_papers_gpus_decode_in_table_4s_time() -> None:
    costs = gpu_costs("qwen3-32b", "a6000")

    assert costs.ranks == 2
    assert costs.decode_base_s == pytest.approx(0.0123)


def test_loads_hide_behind_a_prefill_that_takes_longer() -> None:
    costs = gpu_costs("qwen3-14b", "h200")

    assert costs.prefill_s(4000, 10) == costs.prefill_s(4000, 0)
    assert costs.prefill_s(1, 10**6) == pytest.approx(10**6 / costs.load_tokens_per_s)


def test_newer_gpus_are_faster() -> None:
    old, new = gpu_costs("qwen3-14b", "a100"), gpu_costs("qwen3-14b", "h200")

    assert new.prefill_s(4000, 0) < old.prefill_s(4000, 0)
    assert new.decode_s(16, 50_000) < old.decode_s(16, 50_000)
    assert new.kv_tokens > old.kv_tokens


def test_unknown_names_list_the_choices() -> None:
    with pytest.raises(SettingsError, match="qwen3-14b, qwen3-32b"):
        gpu_costs("gpt", "h200")
    with pytest.raises(SettingsError, match="a100, a6000"):
        gpu_costs("qwen3-14b", "abacus")


def test_a_point_is_fitted_for_the_papers_gpus_and_follows_memory_elsewhere() -> None:
    fitted = operating_point("hover", gpu_costs("qwen3-32b", "a6000"))
    assert fitted.fitted
    assert fitted.concurrency == 72

    costs = gpu_costs("qwen3-32b", "h200")
    free = operating_point("hover", costs)
    assert not free.fitted
    assert free.kv_tokens == costs.kv_tokens


def test_other_fits_change_memory_and_prompts_alone() -> None:
    costs = gpu_costs("qwen3-32b", "a6000")
    point = operating_point("hover", costs)
    others = other_fits("hover", costs)

    assert len({point, *others}) == 1 + len(others) > 1
    for other in others:
        assert (other.workflows, other.concurrency) == (point.workflows, point.concurrency)
    assert other_fits("hover", gpu_costs("qwen3-32b", "h100")) == []
    assert other_fits("a/trace.jsonl", costs) == []
