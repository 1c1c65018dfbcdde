"""Agents that no training saw: every family answers, and its forecasts stay distributions."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks need torch")

from pbkv.predict import MarkovPredictor
from pbkv.predict.families import NETWORKS, make_network
from pbkv.predict.network import Shape
from pbkv.predict.network_predictor import NetworkPredictor
from pbkv.predict.vocabulary import Vocabulary

HIDDEN = 8
NAMES = [(family, variant) for family, kinds in NETWORKS.items() for variant in kinds]
PREFIXES = [("Nobody",), ("A", "Somebody else", "B"), ("Nobody", "Somebody else"), ("B",)]


def network(family, variant):
    agents = Vocabulary("AB")
    made = make_network(family, variant, Shape(len(agents), 3, HIDDEN)).eval()
    return NetworkPredictor(made, agents, steps=3, version="untrained")


def markov():
    predictor = MarkovPredictor(steps=3)
    predictor.observe(("A",), "B")
    return predictor


@pytest.mark.parametrize("hidden", [HIDDEN, 0], ids=["with state", "without"])
@pytest.mark.parametrize("name", [("markov", ""), *NAMES], ids="/".join)
def test_agents_never_seen_are_no_error(name, hidden):
    predictor = markov() if name[0] == "markov" else network(*name)
    states = np.ones((len(PREFIXES), hidden), dtype=np.float32)

    answers = predictor.forecast(PREFIXES, states)

    assert answers.shape == (len(PREFIXES), 3, len(predictor.agents) + 1)
    assert (answers >= 0).all()
    np.testing.assert_allclose(answers.sum(axis=2), 1.0, atol=1e-4)
