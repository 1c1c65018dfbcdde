"""Two forecasters on the same calls."""

import math

import numpy as np
import pytest

from pbkv.predict.dataset import MASKED
from pbkv.predict.paired import difference_interval, paired_steps


def forecasts(*named):
    """One step over three outcomes; each call names one of them."""
    return np.array([[np.eye(3, dtype=np.float32)[outcome]] for outcome in named])


def test_only_calls_that_one_of_them_got_wrong_make_a_difference():
    first = forecasts(0, 1, 2, 2)
    second = forecasts(0, 1, 2, 1)

    (step,) = paired_steps(first, second, np.array([[0], [1], [0], [2]]))

    assert (step.forecasts, step.first, step.second) == (4, 0.75, 0.5)
    assert (step.difference, step.same, step.largest_gap) == (0.25, 0.75, 1.0)
    assert step.low < 0.25 < step.high


def test_masked_targets_do_not_count():
    (step,) = paired_steps(forecasts(0, 1), forecasts(0, 2), np.array([[0], [MASKED]]))

    assert (step.forecasts, step.difference, step.same) == (1, 0.0, 1.0)


def test_a_step_that_no_workflow_reached():
    (step,) = paired_steps(forecasts(0), forecasts(0), np.array([[MASKED]]))

    assert step.forecasts == 0
    assert math.isnan(step.difference)


def test_the_interval_narrows_with_the_trials_and_never_to_nothing():
    wide, narrow = difference_interval(0, 0, 50), difference_interval(0, 0, 5000)

    assert wide[1] - wide[0] > 10 * (narrow[1] - narrow[0]) > 0
    assert wide[0] == pytest.approx(-wide[1])


def test_the_interval_of_a_worked_example():
    # Agresti and Min's adjusted interval by hand: 12.5 and 5.5 of 102.
    low, high = difference_interval(12, 5, 100)

    middle = 7 / 102
    half = 1.96 * math.sqrt(18 - 49 / 102) / 102
    assert (low, high) == pytest.approx((middle - half, middle + half))
