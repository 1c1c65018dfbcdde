"""Small random instances of the paper's model: workflows, agents, distributions, nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pbkv.events import WorkflowEvent
from pbkv.forecast import Forecast
from pbkv.invocation import Invocation
from pbkv.policy import CacheNode, Tier, make_policy
from pbkv.policy.he import HePolicy
from pbkv.settings import PolicySettings

Tables = dict[str, NDArray[np.float32]]
"""Workflow -> P^(k), shape (K, V+1), END last."""


@dataclass(frozen=True)
class Instance:
    """``accesses[c][w]`` is the set of agents of w that accessed node c."""

    gamma: float
    steps: int
    agents: tuple[str, ...]
    accesses: list[dict[str, frozenset[str]]]

    @property
    def multiplier(self) -> float:
        """(1 - gamma^K) / (2 (1 - gamma)) of Lemma G.2, also for gamma = 1."""
        return sum(self.gamma**k for k in range(self.steps)) / 2

    def score(self, node: int, tables: Tables) -> float:
        """Eq. (2), term by term as it is printed."""
        total = 0.0
        for k in range(self.steps):
            for workflow, touched in self.accesses[node].items():
                table = tables[workflow]
                survival = 1.0
                for j in range(k):
                    survival *= 1.0 - float(table[j, -1])
                for column, agent in enumerate(self.agents):
                    if agent in touched:
                        total += self.gamma**k * survival * float(table[k, column])
        return total

    def value(self, node: int, tables: Tables) -> float:
        """Eq. (1)."""
        return sum(
            float(tables[workflow][0, column])
            for workflow, touched in self.accesses[node].items()
            for column, agent in enumerate(self.agents)
            if agent in touched
        )

    def error(self, node: int, truth: Tables, forecast: Tables) -> float:
        """epsilon_c^gamma of eq. (7)."""
        return sum(
            self.gamma**k * float(np.abs(truth[w][k] - forecast[w][k]).sum())
            for w in self.accesses[node]
            for k in range(self.steps)
        )

    def policy(self, tables: Tables, name: str = "he") -> tuple[HePolicy, list[CacheNode]]:
        """The policy after these accesses and forecasts, and its nodes, all candidates."""
        policy = make_policy(
            PolicySettings(policy=name, lookahead_steps=self.steps, gamma=self.gamma)
        )
        nodes = []
        for number, accesses in enumerate(self.accesses):
            node = CacheNode(number, None, 1, last_access_s=float(number))
            policy.on_store(node, Tier.DEVICE)
            policy.add_candidate(node, Tier.DEVICE)
            for workflow, touched in accesses.items():
                for agent in sorted(touched):
                    invocation = Invocation(workflow, agent, at_s=0.0)
                    policy.on_event(WorkflowEvent.invoke(invocation))
                    policy.on_access(node, invocation)
            nodes.append(node)
        for workflow, table in tables.items():
            policy.on_forecast(Forecast(workflow, self.agents, table, 0.0, "test"))
        return policy, nodes


def random_tables(
    rng: np.random.Generator, workflows: list[str], steps: int, agents: int
) -> Tables:
    """Distributions of every sharpness, certain ones and impossible agents included."""
    tables = {}
    for workflow in workflows:
        sharpness = rng.choice([0.1, 1.0, 5.0])
        table = rng.dirichlet(np.full(agents + 1, sharpness), size=steps)
        if rng.random() < 0.2:
            table[rng.integers(steps)] = np.eye(agents + 1)[rng.integers(agents + 1)]
        tables[workflow] = table.astype(np.float32)
    return tables


def random_instance(rng: np.random.Generator) -> Instance:
    steps, num_agents, num_workflows = rng.integers(1, 5), rng.integers(1, 5), rng.integers(1, 5)
    agents = tuple("ABCDE"[:num_agents])
    accesses = []
    for _ in range(rng.integers(2, 7)):
        users = [w for w in range(num_workflows) if rng.random() < 0.6]
        accesses.append(
            {
                f"w{w}": frozenset(a for a in agents if rng.random() < 0.5) or frozenset(agents[:1])
                for w in users
            }
        )
    return Instance(float(rng.uniform(0.05, 1.0)), int(steps), agents, accesses)


@st.composite
def instances(draw: st.DrawFn) -> tuple[Instance, Tables, Tables]:
    """An instance, the true distributions and a forecast: near the truth, far off, or equal."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    instance = random_instance(rng)
    workflows = sorted({w for accesses in instance.accesses for w in accesses})
    truth = random_tables(rng, workflows, instance.steps, len(instance.agents))
    other = random_tables(rng, workflows, instance.steps, len(instance.agents))
    share = draw(st.sampled_from((0.0, 0.001, 0.05, 0.5, 1.0)))
    forecast = {
        w: ((1 - share) * truth[w] + share * other[w]).astype(np.float32) for w in workflows
    }
    return instance, truth, forecast
