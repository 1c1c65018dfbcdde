"""Training: it learns, it repeats, it leaves out what is masked."""

import numpy as np
import pytest
import torch

from pbkv.predict.dataset import MASKED
from pbkv.predict.evaluation import agent_mean_mae, evaluate_variant, split_traces
from pbkv.predict.families import make_network
from pbkv.predict.network import Outputs
from pbkv.predict.training import TrainingPlan, forecast_loss, tail_loss, train_network
from tests.unit.predict.planted import planted_split

PLAN = TrainingPlan(epochs=14, batch_size=64, learning_rate=4e-3)
QUICK_PLAN = TrainingPlan(epochs=5, batch_size=64, learning_rate=4e-3)


def trained(seed, plan=PLAN):
    split = planted_split()
    torch.manual_seed(seed)
    network = make_network("graphsage", "", split.shape)
    result = train_network(
        network, split.training, split.validation, split.transitions, seed=seed, plan=plan
    )
    return network, result


@pytest.mark.parametrize(
    ("family", "variant"),
    [
        ("graphsage", ""),
        ("rgcn", ""),
        ("transformer", "1L"),
        ("tcn", "small"),
        ("mlp", "small"),
    ],
)
def test_it_learns_what_only_the_hidden_state_says(family, variant):
    plan = QUICK_PLAN if family == "transformer" else PLAN
    result = evaluate_variant(family, variant, planted_split(), seed=0, plan=plan)

    # Half of the examples are decided by the state; without it s1 is at most about .75.
    assert result.steps[0].accuracy > 0.9


@pytest.mark.parametrize(("family", "variant"), [("mlp", "tiny"), ("markov", "n=3")])
def test_who_does_not_see_the_state_does_not_learn_it(family, variant):
    result = evaluate_variant(family, variant, planted_split(), seed=0, plan=PLAN)

    assert 0.6 < result.steps[0].accuracy < 0.85


@pytest.mark.parametrize(("family", "variant"), [("knn", "k=5"), ("linear-probe", "post-norm")])
def test_who_sees_the_state_alone_learns_planted_clusters(family, variant):
    traces = [("Start", "Left"), ("Start", "Right")] * 60
    rng = np.random.default_rng(0)
    clusters = 5.0 * np.eye(3)
    states = [clusters[[i % 2, 2]] + rng.normal(scale=0.5, size=(2, 3)) for i in range(len(traces))]

    result = evaluate_variant(
        family,
        variant,
        split_traces(traces, states, train=80, test=40, steps=2),
        seed=0,
        plan=TrainingPlan(batch_size=16, learning_rate=0.02),
    )

    assert result.steps[0].accuracy > 0.95


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    plan = TrainingPlan(epochs=2)

    first, again, other = (trained(seed, plan)[0].state_dict() for seed in (1, 1, 2))

    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["query.weight"], other["query.weight"])


def test_it_stops_when_the_validation_loss_rises_no_more():
    _, result = trained(0, TrainingPlan(epochs=200, patience=3, learning_rate=0.02))

    assert result.epochs < 200
    assert result.best_epoch == result.epochs - 3


def test_masked_targets_cost_nothing():
    logits = torch.randn(2, 2, 3)
    targets = torch.tensor([[0, MASKED], [1, MASKED]])

    loss = forecast_loss(Outputs(logits, torch.zeros(2)), targets)

    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits[:, 0], targets[:, 0]))


def test_the_hazard_that_fits_best_is_one_over_the_mean_length():
    """Of a geometric number of calls beyond K with mean 3, the hazard is 1/4."""
    remaining = torch.tensor([2 + 3] * 4 + [0])
    losses = {
        hazard: float(
            tail_loss(
                Outputs(torch.zeros(5, 2, 3), torch.logit(torch.full((5,), hazard))), remaining
            )
        )
        for hazard in (0.15, 0.25, 0.35)
    }

    assert min(losses, key=losses.get) == 0.25


def test_the_naive_forecast_of_remaining_calls():
    traces = [("A", "B"), ("A", "B", "B", "B")] * 5
    split = split_traces(traces, None, train=8, test=2, steps=2)

    # After A come 2 calls on average, after B 0.75; the test has 1, 0 and 3, 2, 1, 0.
    assert agent_mean_mae(split) == pytest.approx((1 + 0.75 + 1 + 1.25 + 0.25 + 0.75) / 6)
