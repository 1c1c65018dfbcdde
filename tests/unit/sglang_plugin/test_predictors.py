"""The predictors of an engine as its start makes them."""

import threading

import pytest

from pbkv.errors import InvalidCheckpoint, SettingsError
from pbkv.policy import make_policy
from pbkv.predict import MarkovPredictor
from pbkv.predict.publication import VERSIONS
from pbkv.settings import PolicySettings
from pbkv.sglang.predictors import (
    captured_source,
    check_predictors,
    configured_hidden_size,
    make_forecaster,
    with_checkpoint,
)
from pbkv.sglang.record import Recorder

HERE = "tests.unit.sglang_plugin.test_predictors"


class NeedsHiddenStates(MarkovPredictor):
    wants_hidden_states = True
    hidden_size = 128


def needs_hidden_states(settings):
    return NeedsHiddenStates(steps=settings.lookahead_steps)


def make(hidden_size=64, **options):
    settings = PolicySettings(policy="he", predictor_reload_s=0.0, **options)
    made = make_forecaster(settings, make_policy(settings), Recorder(), hidden_size)
    if made is None:
        return None
    forecaster, wants_hidden_states = made
    for part in (forecaster, forecaster._shadow):
        if part is not None:
            part._worker.stop()
    return forecaster, wants_hidden_states


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "markov.json"
    MarkovPredictor(steps=3).save(path)
    return path


def test_a_checkpoint_for_another_model_is_refused_at_the_start():
    with pytest.raises(InvalidCheckpoint, match="is for hidden states of 128 numbers"):
        make(predictor=f"{HERE}:needs_hidden_states", hidden_size=64)


def test_a_shadow_for_another_model_is_refused_too(checkpoint):
    with pytest.raises(InvalidCheckpoint, match="of 128 numbers"):
        make(shadow_predictor=f"{HERE}:needs_hidden_states", shadow_checkpoint=str(checkpoint))


def test_hidden_states_are_captured_for_whoever_wants_them(checkpoint):
    shadow = {
        "shadow_predictor": f"{HERE}:needs_hidden_states",
        "shadow_checkpoint": str(checkpoint),
    }
    assert make()[1] is False
    assert make(predictor=f"{HERE}:needs_hidden_states", hidden_size=128)[1] is True
    forecaster, wants_hidden_states = make(hidden_size=128, **shadow)
    assert wants_hidden_states
    assert forecaster._shadow.wants_hidden_states


def test_without_a_predictor_there_is_no_forecaster():
    assert make(predictor="none") is None


def test_a_folder_where_nothing_is_published_yet_is_no_checkpoint(tmp_path):
    (tmp_path / VERSIONS).mkdir()
    settings = PolicySettings(predictor_checkpoint=str(tmp_path))

    assert with_checkpoint(settings).predictor_checkpoint == ""
    assert make(predictor_checkpoint=str(tmp_path)) is not None


@pytest.mark.parametrize("option", ["predictor_checkpoint", "shadow_checkpoint"])
def test_a_checkpoint_that_cannot_be_read_stops_the_start(tmp_path, option):
    with pytest.raises(SettingsError, match=r"absent\.json: No such file"):
        make(**{option: str(tmp_path / "absent.json")})


def test_with_a_reload_time_of_zero_nobody_watches(checkpoint):
    make(predictor_checkpoint=str(checkpoint))

    assert not [t for t in threading.enumerate() if t.name.startswith("pbkv-reload")]


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ('{"hidden_size": 64}', 64),
        ('{"text_config": {"hidden_size": 32}}', 32),
        ("{}", None),
        ("[]", None),
        ("not JSON", None),
        (None, None),
    ],
)
def test_the_hidden_size_that_a_model_folder_says(tmp_path, config, size):
    if config is not None:
        (tmp_path / "config.json").write_text(config)

    assert configured_hidden_size(str(tmp_path)) == size


def reads(folder, name, source):
    """The configuration of a checkpoint, as far as its source is looked up."""
    path = folder / name
    path.mkdir()
    (path / "config.json").write_text(f'{{"format": 1, "hidden_source": "{source}"}}')
    return str(path)


def test_the_engine_captures_what_the_checkpoint_reads(tmp_path, checkpoint):
    fifteen = reads(tmp_path, "fifteen", "layer 15")
    served = {"predictor": "checkpoint", "predictor_checkpoint": fifteen}

    assert captured_source(PolicySettings()) == "post-norm"
    assert captured_source(PolicySettings(predictor_checkpoint=str(checkpoint))) == "post-norm"
    assert captured_source(PolicySettings(hidden_source="layer 3")) == "layer 3"
    assert captured_source(PolicySettings(**served)) == "layer 15"
    assert captured_source(PolicySettings(shadow_checkpoint=fifteen)) == "layer 15"
    assert captured_source(PolicySettings(**served, hidden_source="layer 15")) == "layer 15"


@pytest.mark.parametrize("other", ["shadow_checkpoint", "hidden_source"])
def test_an_engine_captures_one_layer_and_refuses_a_second(tmp_path, other):
    fifteen, three = reads(tmp_path, "15", "layer 15"), reads(tmp_path, "3", "layer 3")
    settings = PolicySettings(
        predictor="checkpoint",
        predictor_checkpoint=fifteen,
        **{other: three if other == "shadow_checkpoint" else "layer 3"},
    )

    with pytest.raises(InvalidCheckpoint, match=r"layer \d+; this engine captures .* layer \d+$"):
        captured_source(settings)


def test_a_checkpoint_that_is_still_to_come_forecasts_nothing_and_wants_hidden_states(tmp_path):
    settings = PolicySettings(predictor="checkpoint", predictor_checkpoint=str(tmp_path))
    check_predictors(settings, 64)

    forecaster, wants_hidden_states = make(
        predictor="checkpoint", predictor_checkpoint=str(tmp_path)
    )

    assert wants_hidden_states
    assert not forecaster._worker.wants_hidden_states


def test_a_checkpoint_to_come_that_nobody_looks_for_is_refused(tmp_path):
    settings = PolicySettings(
        predictor="checkpoint", predictor_checkpoint=str(tmp_path), predictor_reload_s=0.0
    )

    with pytest.raises(SettingsError, match="nothing is published in "):
        check_predictors(settings, 64)
