"""What the paper proves of the score (Appendix G), tested on the code that keeps it."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from pbkv.policy import Tier
from tests.unit.policy.instances import instances, random_instance, random_tables

ROUNDING = 1e-6
"""Forecasts are float32 and scores keep nine decimal places."""


@settings(max_examples=300, deadline=None)
@given(instances())
def test_the_kept_score_and_value_are_equations_2_and_1(case):
    instance, _, forecast = case
    policy, nodes = instance.policy(forecast, name="pbkv")

    for number, node in enumerate(nodes):
        assert policy.score(node) == pytest.approx(instance.score(number, forecast), abs=ROUNDING)
        assert policy.value(node) == pytest.approx(instance.value(number, forecast), abs=ROUNDING)


TRAJECTORIES = 20_000
SIGMAS = 5.0


@pytest.mark.parametrize("seed", range(12))
def test_lemma_g1_the_score_is_the_expected_discounted_number_of_misses(seed):
    """Workflows are run many times under the truth; an evicted node is missed whenever one of the
    agents that accessed it is called. The mean must be the score within five standard errors."""
    rng = np.random.default_rng(seed)
    instance = random_instance(rng)
    workflows = sorted({w for accesses in instance.accesses for w in accesses})
    truth = random_tables(rng, workflows, instance.steps, len(instance.agents))
    policy, nodes = instance.policy(truth)
    misses = np.zeros((len(nodes), TRAJECTORIES))
    for workflow in workflows:
        alive = np.ones(TRAJECTORIES, dtype=bool)
        for k in range(instance.steps):
            distribution = truth[workflow][k].astype(np.float64)
            outcome = rng.choice(
                len(distribution), size=TRAJECTORIES, p=distribution / distribution.sum()
            )
            alive &= outcome != len(instance.agents)
            for number, accesses in enumerate(instance.accesses):
                touched = [
                    column
                    for column, agent in enumerate(instance.agents)
                    if agent in accesses.get(workflow, ())
                ]
                misses[number] += instance.gamma**k * (alive & np.isin(outcome, touched))

    for number, node in enumerate(nodes):
        error = misses[number].std() / np.sqrt(TRAJECTORIES)
        assert misses[number].mean() == pytest.approx(
            policy.score(node), abs=SIGMAS * error + ROUNDING
        )


@settings(max_examples=300, deadline=None)
@given(instances())
def test_lemma_g2_the_score_moves_at_most_with_the_forecast_s_error(case):
    instance, truth, forecast = case
    true_policy, true_nodes = instance.policy(truth)
    policy, nodes = instance.policy(forecast)

    for number, (true_node, node) in enumerate(zip(true_nodes, nodes, strict=True)):
        moved = abs(true_policy.score(true_node) - policy.score(node))
        bound = instance.multiplier * instance.error(number, truth, forecast)
        assert moved <= bound + ROUNDING
        if instance.gamma < 1.0:
            loose = instance.error(number, truth, forecast) / (2 * (1 - instance.gamma))
            assert bound <= loose + ROUNDING


@settings(max_examples=300, deadline=None)
@given(instances())
def test_corollary_g3_a_small_error_keeps_the_ranking(case):
    instance, truth, forecast = case
    true_policy, true_nodes = instance.policy(truth)
    policy, nodes = instance.policy(forecast)

    for first, second in combinations(range(len(nodes)), 2):
        gap = true_policy.score(true_nodes[first]) - true_policy.score(true_nodes[second])
        errors = sum(instance.error(number, truth, forecast) for number in (first, second))
        if instance.multiplier * errors < abs(gap) - ROUNDING:
            kept = policy.score(nodes[first]) - policy.score(nodes[second])
            assert kept * gap > 0.0


@settings(max_examples=200, deadline=None)
@given(instances())
def test_theorem_g4_the_regret_is_bounded_by_the_errors_at_the_frontier(case):
    """The victims that the policy hands out, for every budget, against the best set of that size
    found by trying all of them."""
    instance, truth, forecast = case
    # Nodes that no workflow may return to are retired, not scored; the theorem is of the scored.
    instance = type(instance)(
        instance.gamma, instance.steps, instance.agents, [a for a in instance.accesses if a]
    )
    policy, _ = instance.policy(forecast)
    order = [node.node_id for node in policy.candidates(Tier.DEVICE)]
    numbers = range(len(instance.accesses))
    cost = [instance.score(number, truth) for number in numbers]
    believed = [instance.score(number, forecast) for number in numbers]
    errors = [instance.error(number, truth, forecast) for number in numbers]

    for budget in range(len(numbers) + 1):
        chosen = set(order[:budget])
        best = set(min(combinations(numbers, budget), key=lambda e: sum(cost[c] for c in e)))
        regret = sum(cost[c] for c in chosen) - sum(cost[c] for c in best)
        differing = chosen ^ best
        assert regret >= -ROUNDING
        assert regret <= sum(abs(cost[c] - believed[c]) for c in differing) + ROUNDING
        assert regret <= instance.multiplier * sum(errors[c] for c in differing) + ROUNDING


@settings(max_examples=100, deadline=None)
@given(instances())
def test_a_perfect_forecast_has_no_regret(case):
    instance, truth, _ = case
    policy, _ = instance.policy(truth)
    order = [n.node_id for n in policy.candidates(Tier.DEVICE) if instance.accesses[n.node_id]]
    cost = {c: instance.score(c, truth) for c in order}

    for budget in range(len(order) + 1):
        best = sum(sorted(cost.values())[:budget])
        assert sum(cost[c] for c in order[:budget]) == pytest.approx(best, abs=ROUNDING)
