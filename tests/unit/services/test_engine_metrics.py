"""Numbers are read out of the exposition text of a real engine."""

from __future__ import annotations

import pytest

from services.engine.metrics import EngineLoad, parse_load

TEXT = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="tiny",tp_rank="0"} 3.0
sglang:num_queue_reqs{engine_type="unified",model_name="tiny",tp_rank="0"} 2.0
sglang:num_retracted_reqs{model_name="tiny",tp_rank="0"} 9.0
# HELP pbkv_kv_tokens Tokens of device KV cache, by state
# TYPE pbkv_kv_tokens gauge
pbkv_kv_tokens{replica="r1",state="total"} 4096.0
pbkv_kv_tokens{replica="r1",state="used"} 1024.0
pbkv_kv_tokens{replica="r1",state="active"} 768.0
pbkv_kv_tokens{replica="r1",state="retired"} 256.0
pbkv_workflows{replica="r1",state="active"} 5.0
pbkv_workflows{replica="r1",state="retired"} 70.0
# TYPE pbkv_prompt_tokens_total counter
pbkv_prompt_tokens_total{agent="planner",replica="r1"} 300.0
pbkv_prompt_tokens_total{agent="a \\"quoted\\" name",replica="r1"} 100.0
pbkv_cached_tokens_total{agent="planner",replica="r1",tier="device"} 90.0
pbkv_cached_tokens_total{agent="a \\"quoted\\" name",replica="r1",tier="device"} 10.0
pbkv_cached_tokens_total{agent="planner",replica="r1",tier="host"} 77.0
pbkv_forecast_accuracy{k="1",replica="r1"} 0.75
pbkv_forecast_accuracy{k="2",replica="r1"} 0.5
"""


def test_reads_every_number() -> None:
    assert parse_load(TEXT) == EngineLoad(
        kv_tokens_total=4096,
        kv_tokens_used=1024,
        kv_tokens_active=768,
        kv_tokens_retired=256,
        workflows=5,
        hit_rate=0.25,
        forecast_accuracy=0.75,
        running_requests=3,
        queued_requests=2,
    )


def test_an_engine_that_reported_nothing_yet_is_all_zero() -> None:
    assert parse_load("# nothing here\n") == EngineLoad()
    assert EngineLoad().fraction(0) == 0.0


def test_fraction_is_of_the_whole_pool() -> None:
    assert parse_load(TEXT).fraction(1024) == 0.25


@pytest.mark.parametrize(
    ("load", "busy"),
    [
        (EngineLoad(), False),
        (EngineLoad(kv_tokens_used=10, kv_tokens_retired=10), False),
        (EngineLoad(workflows=1), True),
        (EngineLoad(running_requests=1), True),
        (EngineLoad(queued_requests=1), True),
    ],
)
def test_busy_means_that_something_would_be_lost(load: EngineLoad, busy: bool) -> None:
    assert load.busy is busy


def test_a_malformed_line_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(ValueError):
        parse_load('pbkv_kv_tokens{state="total"} many\n')
