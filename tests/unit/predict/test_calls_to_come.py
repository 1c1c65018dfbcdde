from __future__ import annotations

import math

import numpy as np
import pytest

from pbkv.forecast import RemainingCallsPredictor
from pbkv.predict import MarkovPredictor
from pbkv.predict.calls_to_come import WINDOW, CallsToCome

NOTHING = np.empty((1, 0), dtype=np.float32)


def _after(predictor: MarkovPredictor, *prefix: str) -> float:
    predictor.forecast([prefix], NOTHING)
    return float(predictor.remaining_calls[0])


def test_the_mean_is_of_all_calls_of_an_agent() -> None:
    known = CallsToCome()
    known.learn([1, 2, 2, 3])
    known.learn([1, 3])

    assert [known.after(column) for column in (1, 2, 3)] == [2.0, 1.5, 0.0]
    assert math.isnan(known.after(4))


def test_old_workflows_fade() -> None:
    known = CallsToCome()
    for _ in range(WINDOW):
        known.learn([1])
    for _ in range(5 * WINDOW):
        known.learn([1, 2, 2, 2])

    assert known.after(1) == pytest.approx(3.0, abs=0.05)


def test_markov_tells_them_once_a_workflow_ended(tmp_path) -> None:
    predictor = MarkovPredictor(steps=2)
    predictor.observe([], "A")
    predictor.observe(["A"], "B")
    predictor.observe(["A", "B"], "B")
    assert math.isnan(_after(predictor, "A"))

    predictor.observe(["A", "B", "B"], None)

    assert isinstance(predictor, RemainingCallsPredictor)
    assert (_after(predictor, "A"), _after(predictor, "A", "B")) == (2.0, 0.5)
    assert math.isnan(_after(predictor, "never seen"))
    predictor.save(tmp_path / "markov.json")
    loaded = MarkovPredictor.load(tmp_path / "markov.json", steps=2)
    assert (_after(loaded, "A"), _after(loaded, "A", "B")) == (2.0, 0.5)
