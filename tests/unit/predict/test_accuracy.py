"""Live accuracy of forecasts, by step."""

import numpy as np
import pytest

from pbkv.forecast import Forecast
from pbkv.predict.accuracy import WINDOW, LiveAccuracy

AGENTS = ("A", "B")


def forecast(*likeliest):
    """A forecast that names one outcome per step, None for the end."""
    rows = np.zeros((len(likeliest), 3), dtype=np.float32)
    for row, outcome in zip(rows, likeliest, strict=True):
        row[-1 if outcome is None else AGENTS.index(outcome)] = 1.0
    return Forecast("w", AGENTS, rows, 0.0, "test")


def test_a_step_is_tested_by_the_call_that_far_ahead():
    accuracy = LiveAccuracy(3)
    accuracy.made(forecast("A", "B", None), call=1)
    accuracy.happened("w", 2, "A")
    accuracy.happened("w", 3, "A")
    accuracy.happened("w", 4, None)

    assert dict(accuracy.by_step()) == {1: 1.0, 2: 0.0, 3: 1.0}


def test_the_end_tests_each_forecast_at_one_step_and_clears_the_workflow():
    accuracy = LiveAccuracy(2)
    accuracy.made(forecast("A", None), call=1)
    accuracy.happened("w", 2, "A")
    accuracy.made(forecast("B", None), call=2)
    accuracy.happened("w", 3, None)

    assert dict(accuracy.by_step()) == {1: 0.5, 2: 1.0}
    assert accuracy.num_workflows == 0


def test_a_newer_forecast_of_the_same_call_is_the_one_that_counts():
    accuracy = LiveAccuracy(1)
    accuracy.made(forecast("A"), call=1)
    accuracy.made(forecast("B"), call=1)
    accuracy.happened("w", 2, "B")

    assert dict(accuracy.by_step()) == {1: 1.0}


def test_nothing_is_said_of_steps_without_a_test():
    accuracy = LiveAccuracy(3)
    accuracy.made(forecast("A", "A", "A"), call=1)
    accuracy.happened("w", 2, "A")
    accuracy.happened("unknown", 7, "A")

    assert dict(accuracy.by_step()) == {1: 1.0}


def test_only_recent_forecasts_count():
    accuracy = LiveAccuracy(1)
    for call in range(1, WINDOW + 1):
        accuracy.made(forecast("A"), call)
        accuracy.happened("w", call + 1, "B")
    for call in range(WINDOW + 1, WINDOW + WINDOW // 4 + 1):
        accuracy.made(forecast("A"), call)
        accuracy.happened("w", call + 1, "A")

    assert dict(accuracy.by_step())[1] == pytest.approx(0.25)
