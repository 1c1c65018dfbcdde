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


def sure(outcome, probability):
    """A forecast of one step that gives ``outcome`` that probability."""
    row = np.full((1, 3), (1.0 - probability) / 2, dtype=np.float32)
    row[0, -1 if outcome is None else AGENTS.index(outcome)] = probability
    return Forecast("w", AGENTS, row, 0.0, "test")


def record_of(outcomes):
    """A record of one-step forecasts (said, probability, what came)."""
    accuracy = LiveAccuracy(1)
    for call, (said, probability, came) in enumerate(outcomes, start=1):
        accuracy.made(sure(said, probability), call)
        accuracy.happened("w", call + 1, came)
    return accuracy


def test_forecasts_that_come_as_often_as_they_say_are_calibrated():
    accuracy = record_of([("A", 0.75, "A")] * 75 + [("A", 0.75, "B")] * 25)

    assert dict(accuracy.calibration_by_step()) == {1: pytest.approx(0.0, abs=1e-6)}
    assert dict(accuracy.by_step()) == {1: 0.75}


def test_calibration_error_is_the_distance_weighted_by_the_bins():
    """In one bin 0.95 is said and 0.5 comes, in the other 0.55 and 1.0: (0.45 + 0.45) / 2."""
    half_right = [("A", 0.95, "A"), ("A", 0.95, "B")] * 10
    always_right = [("B", 0.55, "B")] * 20

    accuracy = record_of(half_right + always_right)

    assert dict(accuracy.calibration_by_step()) == {1: pytest.approx(0.45, abs=1e-6)}


def test_calibration_forgets_what_left_the_window():
    accuracy = record_of([("A", 0.95, "B")] * 50 + [("A", 0.95, "A")] * WINDOW)

    assert dict(accuracy.calibration_by_step()) == {1: pytest.approx(0.05, abs=1e-4)}
    assert dict(accuracy.by_step()) == {1: 1.0}


def test_the_same_is_found_from_scratch():
    rng = np.random.default_rng(3)
    outcomes = [
        ("A", float(p), "A" if rng.random() < p * 0.8 else "B")
        for p in rng.uniform(0.4, 1.0, WINDOW + 300)
    ]

    found = dict(record_of(outcomes).calibration_by_step())[1]

    last = outcomes[-WINDOW:]
    bins = {}
    for said, probability, came in last:
        bins.setdefault(min(int(probability * 10), 9), []).append((probability, said == came))
    expected = sum(
        len(b) / WINDOW * abs(np.mean([p for p, _ in b]) - np.mean([h for _, h in b]))
        for b in bins.values()
    )
    assert found == pytest.approx(expected, abs=1e-4)
