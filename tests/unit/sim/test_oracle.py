"""Nobody is above the clairvoyant policy, on any workload."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pbkv.policy import Tier
from pbkv.settings import PolicySettings
from pbkv.sim import EngineLimits, simulate
from pbkv.sim.client import WorkflowRun
from pbkv.sim.node import TreeNode
from pbkv.sim.oracle import Foresight, OraclePolicy
from pbkv.sim.simulate import policy_names
from pbkv.workload import ScriptedCall, ScriptedWorkflow, Segment, make_workflows
from services.sim.graph import default_graph
from tests.unit.sim.scenes import PAGE, pressed, workflow

# Workflows, scale of prompts, pool, at a time: small, and under pressure.
SCENES = {
    "hover": (60, 0.3, 5000, 24),
    "swebench": (24, 0.06, 5000, 12),
    "financebench": (60, 0.3, 3500, 24),
}
# The order of session is that of lae but for prefixes that workflows share.
RIVALS = sorted({*policy_names()} - {"oracle", "unlimited", "session"})
TOLERANCE = 0.002
"""Hit rates of one seed that differ by less are equal."""


@pytest.mark.parametrize("workload", SCENES)
def test_no_policy_finds_more(workload: str) -> None:
    count, scale, kv_tokens, concurrency = SCENES[workload]
    scripts = make_workflows(workload, count, seed=5, scale=scale)
    settings = PolicySettings(agent_graph=default_graph(scripts))
    limits = EngineLimits(kv_tokens=kv_tokens, max_running_requests=6)

    def hit_rate(policy: str) -> float:
        simulation = pressed(policy, limits=limits, concurrency=concurrency, settings=settings)
        return simulate(simulation, scripts).hit_rate

    bound = hit_rate("oracle")
    found = {policy: hit_rate(policy) for policy in RIVALS}

    assert {policy: hit for policy, hit in found.items() if hit > bound + TOLERANCE} == {}
    # The scene is one in which eviction matters.
    assert found["lru"] < bound - 0.05
    assert hit_rate("unlimited") > bound


def _run(foresight: Foresight, script: ScriptedWorkflow, calls: int) -> WorkflowRun:
    run = WorkflowRun(script, page_size=PAGE, max_new_tokens=None, now_s=0.0)
    for arrival in range(calls):
        run.next_request(arrival, 0.0)
    foresight.runs = {**foresight.runs, script.workflow_id: run}
    foresight.started += 1
    return run


def _node(script: ScriptedWorkflow, pages: int = 2) -> TreeNode:
    run = WorkflowRun(script, page_size=PAGE, max_new_tokens=None, now_s=0.0)
    return TreeNode(1, None, run.next_request(0, 0.0).ids[:pages], 0)


def test_what_is_used_sooner_is_nearer() -> None:
    soon, late, over, unstarted = (
        workflow(name, *[(16, 4)] * calls) for name, calls in zip("slou", (4, 4, 2, 2), strict=True)
    )
    foresight = Foresight([soon, late, over, unstarted], PAGE)
    runs = [_run(foresight, soon, 1), _run(foresight, late, 2), _run(foresight, over, 2)]
    waiting = runs[0].next_request(9, 0.0)
    foresight.waiting = lambda: [waiting]
    foresight.look()
    near, far, never, later = (
        foresight.distance(_node(script)) for script in (soon, late, over, unstarted)
    )

    assert near < later
    assert near < far < math.inf
    assert never == math.inf
    # It starts when the workflow in its last call ends.
    assert later < math.inf


def test_a_node_that_is_used_in_part_is_farther() -> None:
    said = Segment("said", 16)
    script = ScriptedWorkflow(
        "w",
        {"c": ()},
        tuple(ScriptedCall("A", "c", (said,), (Segment(f"ask/{n}", 16),), 4) for n in range(3)),
    )
    foresight = Foresight([script], PAGE)
    _run(foresight, script, 1)
    foresight.look()
    whole, half = foresight.distance(_node(script, 4)), foresight.distance(_node(script, 8))

    assert half == pytest.approx(2 * whole)


def test_what_becomes_a_leaf_during_a_walk_is_offered_in_it() -> None:
    scripts = [workflow("w", (16, 4), (16, 4))]
    policy = OraclePolicy(PolicySettings(policy="oracle"), Foresight(scripts, PAGE))
    above = _node(scripts[0])
    below = TreeNode(2, above, [1, 2], 2)
    for node in (above, below):
        node.num_tokens = 8
        policy.on_store(node, Tier.DEVICE)
    policy.add_candidate(below, Tier.DEVICE)
    offered = []
    for victim in policy.next_victims(100, Tier.DEVICE):
        offered.append(victim)
        policy.on_release(victim, Tier.DEVICE)
        policy.drop_candidate(victim, Tier.DEVICE)
        if victim is below:
            policy.add_candidate(above, Tier.DEVICE)

    assert offered == [below, above]


def test_limits_of_the_host_tier_do_not_break_it() -> None:
    scripts = make_workflows("hover", 24, seed=3, scale=0.3)
    limits = EngineLimits(kv_tokens=2600, max_running_requests=3)
    without = simulate(pressed("oracle", limits=replace(limits, host_ratio=0.0)), scripts)

    assert without.host_hit_rate == 0.0
    assert without.workflows == 24
