"""Predictors by name."""

import pytest

from pbkv.errors import SettingsError
from pbkv.predict import MarkovPredictor, check_predictor, make_predictor
from pbkv.settings import PolicySettings


def mine(settings):
    return MarkovPredictor(1, steps=settings.lookahead_steps)


def test_markov_is_the_default_and_looks_as_far_as_the_score():
    predictor = make_predictor(PolicySettings(lookahead_steps=5))

    assert isinstance(predictor, MarkovPredictor)
    assert predictor.steps == 5


def test_none_is_no_predictor():
    assert make_predictor(PolicySettings(predictor="none")) is None


def test_a_predictor_from_outside_is_called_with_the_settings():
    name = f"{__name__}:mine"

    assert make_predictor(PolicySettings(predictor=name, lookahead_steps=2)).steps == 2


def unmakeable(settings):
    raise AssertionError("made where it is only checked")


def test_a_predictor_from_outside_is_not_made_to_check_its_name():
    check_predictor(PolicySettings(predictor=f"{__name__}:unmakeable"))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"predictor": "markow"}, "none, markov"),
        ({"predictor": "no_such_module:make"}, "cannot be imported"),
        ({"predictor": "pbkv.predict:no_such_function"}, "cannot be imported"),
        ({"predictor": ":"}, "cannot be imported"),
        ({"predictor_checkpoint": "/nonexistent/markov.json"}, "No such file"),
        ({"predictor": "none", "predictor_checkpoint": "x.json"}, "predictor is none"),
        ({"forecast_noise": 1.5}, "0 to 1"),
        ({"forecast_noise": float("nan")}, "0 to 1"),
    ],
)
@pytest.mark.parametrize("door", [make_predictor, check_predictor])
def test_a_wrong_setting_is_refused_in_one_line(door, settings, word):
    with pytest.raises(SettingsError) as refused:
        door(PolicySettings(**settings))

    assert word in str(refused.value)
    assert "\n" not in str(refused.value)
