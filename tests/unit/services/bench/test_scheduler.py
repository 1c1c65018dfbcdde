"""The comparison of scheduler times, from rows and scripts; what it measures needs engines."""

import pytest

from pbkv.workload import make_workflows
from services.bench.report import show
from services.bench.scheduler import SchedulerBench, ratios_to_stock, scheduler_table


def row(variant, repeat, milliseconds):
    return {
        "variant": variant,
        "policy": variant.partition("/")[0],
        "repeat": repeat,
        "cpu_ms_per_request": milliseconds,
    }


ROWS = [
    row("stock-lru/fcfs", 0, 10.0),
    row("he/pbkv", 0, 11.0),
    row("he/pbkv", 1, 20.4),
    row("stock-lru/fcfs", 1, 20.0),
    row("he/pbkv", 2, 50.0),
]


def test_each_round_is_compared_with_stock_in_the_same_round():
    ratios = ratios_to_stock(ROWS)

    assert ratios["he/pbkv"] == pytest.approx([1.1, 1.02])
    assert ratios["stock-lru/fcfs"] == [1.0, 1.0]


def test_the_table_says_whether_the_target_is_met(capsys):
    show(scheduler_table(ROWS))

    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if "he/pbkv" in line)
    assert "1.060" in line
    assert "no" in line


def test_without_stock_there_are_times_and_no_ratio(capsys):
    show(scheduler_table([row("he/pbkv", 0, 12.5)]))

    assert "12.50" in capsys.readouterr().out


def test_the_pool_holds_more_than_all_prompts_and_replies_of_a_round():
    bench = SchedulerBench("hover", 4, 4, 2, 0.3, 1, 0.0, 16_384, None, None)
    longest = 0
    for seed in (1, 2):
        workflows = make_workflows("hover", 4, seed=seed, scale=0.3)
        unique = sum(
            sum(s.num_tokens for s in (*call.added, *call.instruction)) + call.output_tokens
            for workflow in workflows
            for call in workflow.calls
        )
        longest = max(longest, unique)

    assert bench.kv_tokens() > longest
