"""Accuracy and calibration per step."""

import numpy as np
import pytest

from pbkv.predict.dataset import MASKED
from pbkv.predict.scores import score_steps


def scores(confidences, hits):
    """Forecasts of two outcomes that say outcome 0 with these confidences."""
    first = np.array(confidences, np.float32)
    probabilities = np.stack([first, 1 - first], axis=1)[:, None]
    return score_steps(probabilities, np.array([[0 if hit else 1] for hit in hits]))[0]


def test_a_calibrated_forecast_has_no_error():
    score = scores([0.75] * 4, [True, True, True, False])

    assert score.accuracy == 0.75
    assert score.calibration_error == pytest.approx(0.0, abs=1e-6)


def test_the_error_is_weighted_by_how_many_forecasts_are_in_a_bin():
    score = scores([0.95] * 3 + [0.65], [True, True, False, False])

    assert [count for _, _, count in score.reliability] == [1, 3]
    assert score.calibration_error == pytest.approx((3 * (0.95 - 2 / 3) + 0.65) / 4, abs=1e-6)


def test_masked_targets_do_not_count():
    probabilities = np.array([[[0.9, 0.1]], [[0.9, 0.1]]], np.float32)

    score = score_steps(probabilities, np.array([[0], [MASKED]]))[0]

    assert score.accuracy == 1.0
    assert score.reliability[0][2] == 1
