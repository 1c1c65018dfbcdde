"""A trained network as a checkpoint, and as a predictor."""

import json

import numpy as np
import pytest
import torch

from pbkv.errors import InvalidCheckpoint, SettingsError
from pbkv.forecast import Predictor
from pbkv.predict import MarkovPredictor, check_predictor, make_predictor
from pbkv.predict.families import make_network
from pbkv.predict.network import Shape
from pbkv.predict.network_checkpoint import CONFIG_FILE, WEIGHTS_FILE, save_network
from pbkv.predict.network_predictor import NetworkPredictor
from pbkv.predict.reload import check_fit
from pbkv.predict.vocabulary import UNKNOWN_AGENT, Vocabulary
from pbkv.settings import PolicySettings

AGENTS = Vocabulary(["A", "B"])
STATES = np.arange(8, dtype=np.float32).reshape(2, 4)
PREFIXES = [["A"], ["A", "B"]]


def save(path, family="graphsage", variant="", hidden_size=4, seed=0):
    torch.manual_seed(seed)
    network = make_network(family, variant, Shape(len(AGENTS), 3, hidden_size)).eval()
    save_network(path, network, family, variant, AGENTS)
    return NetworkPredictor(network, AGENTS, steps=3, version="")


def loaded(path, **settings):
    return make_predictor(
        PolicySettings(predictor="checkpoint", predictor_checkpoint=str(path), **settings)
    )


@pytest.mark.parametrize(
    ("family", "variant"),
    [("graphsage", ""), ("rgcn", ""), ("transformer", "2L"), ("tcn", "small"), ("mlp", "deep")],
)
def test_what_is_read_forecasts_as_what_was_saved(tmp_path, family, variant):
    saved = save(tmp_path / "it", family, variant)

    read = loaded(tmp_path / "it")

    assert isinstance(read, NetworkPredictor)
    assert read.agents == (UNKNOWN_AGENT, "A", "B")
    np.testing.assert_array_equal(read.forecast(PREFIXES, STATES), saved.forecast(PREFIXES, STATES))


def test_a_forecast_is_a_distribution_per_step(tmp_path):
    save(tmp_path / "it")
    predictor: Predictor = loaded(tmp_path / "it", lookahead_steps=2)

    forecast = predictor.forecast(PREFIXES, STATES)

    assert forecast.shape == (2, 2, 4)
    np.testing.assert_allclose(forecast.sum(axis=2), 1.0, rtol=1e-5)
    assert predictor.remaining_calls.shape == (2,)


def test_it_answers_without_a_hidden_state_and_for_unknown_agents(tmp_path):
    save(tmp_path / "it")

    forecast = loaded(tmp_path / "it").forecast([["new"]], np.empty((1, 0), np.float32))

    np.testing.assert_allclose(forecast.sum(axis=2), 1.0, rtol=1e-5)


def test_a_checkpoint_for_another_hidden_size_is_refused_in_one_line(tmp_path):
    save(tmp_path / "it")
    predictor = loaded(tmp_path / "it")

    with pytest.raises(InvalidCheckpoint, match=r"states of 4 numbers; this model's have 6"):
        check_fit(predictor, 6)
    with pytest.raises(InvalidCheckpoint, match=r"states of 4 numbers; this model's have 6"):
        predictor.forecast([["A"]], np.zeros((1, 6), np.float32))


def test_a_network_without_hidden_states_asks_for_none(tmp_path):
    save(tmp_path / "it", hidden_size=0)
    predictor = loaded(tmp_path / "it")

    assert not predictor.wants_hidden_states
    assert predictor.forecast(PREFIXES, STATES).shape == (2, 3, 4)


def test_a_later_checkpoint_takes_the_place_of_an_earlier_one(tmp_path):
    save(tmp_path / "it", seed=1)
    save(tmp_path / "it", seed=2)

    assert [path.name for path in tmp_path.iterdir()] == ["it"]
    assert loaded(tmp_path / "it").version.startswith("graphsage-")


def test_a_folder_of_something_else_is_not_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(InvalidCheckpoint, match="no checkpoint"):
        save(tmp_path)

    assert (tmp_path / "thesis.txt").exists()


def test_a_markov_checkpoint_is_served_under_the_same_name(tmp_path):
    MarkovPredictor(2, ["A"]).save(tmp_path / "markov.json")

    assert isinstance(loaded(tmp_path / "markov.json"), MarkovPredictor)


def other_weights(folder):
    (folder / WEIGHTS_FILE).write_bytes(b"other")


def no_weights(folder):
    (folder / WEIGHTS_FILE).unlink()


def config(**changes):
    def change(folder):
        path = folder / CONFIG_FILE
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (other_weights, "not the one"),
        (no_weights, "No such file"),
        (config(format=99), "format 99"),
        (config(family="oracle"), "unknown predictor"),
        (config(steps=0), "damaged at steps"),
        (config(hidden_size=5), "do not fit"),
        (config(agents=["A"]), "do not fit"),
        (config(more=1), "damaged at more"),
    ],
)
def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path, damage, word):
    save(tmp_path / "it")
    damage(tmp_path / "it")

    with pytest.raises(InvalidCheckpoint) as refused:
        loaded(tmp_path / "it")

    assert word in str(refused.value)
    assert "\n" not in str(refused.value)


def test_more_steps_than_it_has_are_refused(tmp_path):
    save(tmp_path / "it")

    with pytest.raises(InvalidCheckpoint, match="forecasts 3 steps; 4 are asked for"):
        loaded(tmp_path / "it", lookahead_steps=4)


def test_a_checkpoint_has_to_be_named():
    with pytest.raises(SettingsError, match="needs predictor_checkpoint"):
        check_predictor(PolicySettings(predictor="checkpoint"))
