"""Remaining calls from a forecast of K steps and a hazard."""

import numpy as np
import pytest

from pbkv.predict.remaining import remaining_calls


def test_a_constant_hazard_gives_the_geometric_distribution():
    hazard = 0.2

    calls = remaining_calls(np.full((1, 3), hazard, np.float32), np.array([hazard], np.float32))

    assert calls.mean[0] == pytest.approx(0.8 / 0.2, rel=1e-5)
    assert calls.spread[0] == pytest.approx(np.sqrt(0.8) / 0.2, rel=1e-5)


def test_a_sure_end_leaves_no_spread():
    calls = remaining_calls(np.array([[0, 1, 0]], np.float32), np.array([0.5], np.float32))

    assert calls.mean[0] == pytest.approx(1.0)
    assert calls.spread[0] == pytest.approx(0.0, abs=1e-6)
