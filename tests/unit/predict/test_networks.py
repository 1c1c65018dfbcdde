"""What every trained family has to do, whatever it is made of."""

import numpy as np
import pytest
import torch

from pbkv.errors import SettingsError
from pbkv.predict.dataset import encode_prefixes
from pbkv.predict.evaluation import variants
from pbkv.predict.families import make_network
from pbkv.predict.graphsage import GraphSage
from pbkv.predict.network import Batch, Shape
from pbkv.predict.vocabulary import Vocabulary

NETWORKS = [pair for pair in variants() if pair[0] not in ("knn", "markov")]
AGENTS = Vocabulary(["A", "B"])
SHAPE = Shape(agents=3, steps=3, hidden_size=5)


def batch(prefixes, hidden=None):
    states = np.empty((len(prefixes), 0), np.float32) if hidden is None else hidden
    return Batch.of(encode_prefixes(prefixes, states, AGENTS, SHAPE.hidden_size))


def made(family, variant, seed=0):
    torch.manual_seed(seed)
    return make_network(family, variant, SHAPE).eval()


@pytest.mark.parametrize(("family", "variant"), NETWORKS)
def test_one_pass_gives_all_steps_and_the_tail(family, variant):
    outputs = made(family, variant)(batch([["A"], ["A", "B"]], np.ones((2, 5), np.float32)))

    assert outputs.logits.shape == (2, 3, 4)
    assert outputs.tail.shape == (2,)


@pytest.mark.parametrize(("family", "variant"), NETWORKS)
def test_it_answers_for_first_calls_unknown_agents_and_without_a_state(family, variant):
    outputs = made(family, variant)(batch([["new"], ["A"], ["A"] * 50 + ["new"]]))

    assert torch.isfinite(outputs.logits).all()
    assert torch.isfinite(outputs.tail).all()


@pytest.mark.parametrize(("family", "variant"), NETWORKS)
def test_a_row_does_not_depend_on_the_rest_of_its_batch(family, variant):
    network = made(family, variant)
    states = np.random.default_rng(1).normal(size=(2, 5)).astype(np.float32)

    together = network(batch([["A"], ["A", "B", "B"]], states)).logits[0]
    alone = network(batch([["A"]], states[:1])).logits[0]

    torch.testing.assert_close(together, alone)


def test_the_attention_is_that_of_the_formula():
    """Eq. (4), written out over the places of the prefix."""
    network = made("graphsage", "")
    network.transitions.copy_(torch.tensor([[0, 0, 0], [0, 0.25, 0.75], [0, 1, 0]]))
    seen = []
    network.head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))

    network(batch([["A", "B", "A", "B"]]))

    agents = network.agent_states()
    query = network.query(agents[2])
    before = agents[[1, 2, 1]]
    weights = torch.softmax(before @ query / before.shape[1] ** 0.5, dim=0)
    width = before.shape[1]
    torch.testing.assert_close(seen[0][0, :width], agents[2])
    torch.testing.assert_close(seen[0][0, width : 2 * width], weights @ before)


def test_the_layers_are_those_of_the_formula():
    """Eq. (3): ReLU([H || A H] W^T), with W in two halves and a bias."""
    network = made("graphsage", "")
    transitions = torch.tensor([[0, 0, 0], [0, 0.25, 0.75], [0, 1, 0]])
    network.transitions.copy_(transitions)

    states = network.embedding.weight
    for layer in network.layers:
        own, neighbours = layer.lin_root, layer.lin_rel
        weight = torch.cat([own.weight, neighbours.weight], dim=1)
        bias = sum(part.bias for part in (own, neighbours) if part.bias is not None)
        states = torch.relu(torch.cat([states, transitions @ states], dim=1) @ weight.T + bias)

    torch.testing.assert_close(network.agent_states(), states)


@pytest.mark.parametrize(("variant", "same"), [("", True), ("ordered", False)])
def test_only_the_ordered_variant_sees_the_order_of_the_prefix(variant, same):
    network = made("graphsage", variant)

    one, other = network(batch([["A", "B", "B", "A"], ["B", "B", "A", "A"]])).logits

    assert torch.allclose(one, other, atol=1e-6) == same


def test_it_has_about_350_thousand_parameters_at_the_paper_size():
    network = GraphSage(Shape(agents=9, steps=3, hidden_size=5120))

    assert 320_000 < sum(parameter.numel() for parameter in network.parameters()) < 380_000


def test_an_unknown_name_lists_the_choices():
    with pytest.raises(SettingsError, match=r"unknown predictor 'mlp/huge'; known: .*mlp/deep"):
        make_network("mlp", "huge", SHAPE)
