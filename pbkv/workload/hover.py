"""HoVer-like fact verification: eight agents over one shared transcript, with refinement loops.

The call graph is a small generative model fitted to the Markov accuracies that the paper's Table 3
reports for HoVer; the numbers of hops and the claims come from HoVer itself, or from the generated
sample. How long prompts are follows from the paper's latencies: about 1,000 tokens on average.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from pbkv.workload.script import ScriptedCall, ScriptedWorkflow, Segment

AGENTS = ("Planner", "Query", "Retriever", "Reader", "Judge", "Refiner", "Verdict", "Critic")


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to verify and the number of documents it takes."""

    claim_id: str
    text: str
    hops: int


@dataclass(frozen=True, slots=True)
class HoverGraph:
    """Probabilities of the branches. A workflow is hard or easy as a whole."""

    hard: float = 0.55
    miss: tuple[float, float] = (0.23, 0.27)
    read: tuple[float, float] = (0.0, 0.91)
    requery: float = 0.69
    critic: tuple[float, float] = (0.07, 0.43)
    critic_refines: float = 0.21
    retrievals_per_hop: float = 0.5
    max_retries: int = 4


@dataclass(frozen=True, slots=True)
class HoverSizes:
    """Token counts at scale 1. Spreads are the sigma of a log-normal factor."""

    system: int = 140
    instruction: int = 95
    claim: int = 80
    passage: int = 105
    note: int = 25
    output: int = 77
    growth_sigma: float = 0.4
    output_sigma: float = 0.3
    pause_mean_s: float = 0.05


def agent_sequence(hops: int, graph: HoverGraph, rng: random.Random) -> list[str]:
    """The agents of one workflow, first to last."""
    hard = rng.random() < graph.hard
    retries = graph.max_retries
    agents = ["Planner"]
    for _ in range(max(1, round(hops * graph.retrievals_per_hop))):
        agents.append("Query")
        while True:
            agents.append("Retriever")
            if rng.random() < graph.read[hard]:
                agents.append("Reader")
            agents.append("Judge")
            if retries == 0 or rng.random() >= graph.miss[hard]:
                break
            retries -= 1
            agents.append("Refiner")
            if rng.random() < graph.requery:
                agents.append("Query")
    while True:
        agents.append("Verdict")
        if retries == 0 or rng.random() >= graph.critic[hard]:
            return agents
        retries -= 1
        agents.append("Critic")
        if rng.random() < graph.critic_refines:
            agents += ["Refiner", "Retriever", "Judge"]


def hover_workflow(
    claim: Claim,
    index: int,
    *,
    seed: int,
    scale: float = 1.0,
    graph: HoverGraph | None = None,
    sizes: HoverSizes | None = None,
) -> ScriptedWorkflow:
    """One workflow that verifies ``claim``. Token counts are multiplied by ``scale``."""
    graph = graph or HoverGraph()
    sizes = sizes or HoverSizes()
    rng = random.Random(f"hover/{seed}/{index}/{claim.claim_id}")

    def tokens(mean: float, sigma: float = 0.0) -> int:
        return max(1, round(mean * scale * rng.lognormvariate(0.0, sigma)))

    workflow_id = f"hover-{seed}-{index}"
    calls = []
    agents = agent_sequence(claim.hops, graph, rng)
    for step, agent in enumerate(agents):
        grown = sizes.passage if agent == "Retriever" else sizes.note
        calls.append(
            ScriptedCall(
                agent=agent,
                context="transcript",
                added=(Segment(f"{workflow_id}/{step}", tokens(grown, sizes.growth_sigma)),),
                instruction=(Segment(f"hover/instruction/{agent}", tokens(sizes.instruction)),),
                output_tokens=tokens(sizes.output, sizes.output_sigma),
                pause_s=rng.expovariate(1.0 / sizes.pause_mean_s),
            )
        )
    transcript = (
        Segment("hover/system", tokens(sizes.system)),
        Segment(f"{workflow_id}/claim", tokens(sizes.claim), claim.text),
    )
    return ScriptedWorkflow(workflow_id, {"transcript": transcript}, tuple(calls))
