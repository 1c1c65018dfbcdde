"""Which agents will touch a node, given which agents touched it: the A_w(c) of the paper's score.

The paper marks the agents that accessed a node and assumes that they, and only they, come back to
it (``direct``). Where agents share a transcript that is wrong twice: the next agent reads a node it
never touched, and an agent's own instruction, at the end of its prompt, is read by nobody again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from pbkv.errors import SettingsError
from pbkv.policy.node import CacheNode


class AccessModel(ABC):
    """Turns the agents that accessed a node into probabilities of who touches it next."""

    name: ClassVar[str]

    @abstractmethod
    def touch(self, application: str, agents: frozenset[str]) -> Mapping[str, float]:
        """For each agent, the probability that its next call touches a node that ``agents``
        accessed. Agents left out have probability 0."""

    @abstractmethod
    def observe(
        self,
        application: str,
        agent: str,
        known: Iterable[tuple[CacheNode, frozenset[str]]],
        touched: set[int],
    ) -> None:
        """A call of ``agent`` touched the nodes whose ids are ``touched``, out of the ``known``
        nodes of its workflow, each with the agents that had accessed it before."""


class DirectAccess(AccessModel):
    """The paper's indicator: agents come back to what they accessed (section 4.2.2)."""

    name = "direct"

    def touch(self, application: str, agents: frozenset[str]) -> Mapping[str, float]:
        return dict.fromkeys(agents, 1.0)

    def observe(
        self,
        application: str,
        agent: str,
        known: Iterable[tuple[CacheNode, frozenset[str]]],
        touched: set[int],
    ) -> None:
        """Nothing to learn."""


class InheritedAccess(DirectAccess):
    """The paper's customisation (section 5): agent j inherits what agent i accessed, by a map
    from i to the agents that inherit from it."""

    name = "inherit"

    def __init__(self, heirs: Mapping[str, Iterable[str]]) -> None:
        self._heirs = {agent: tuple(inheriting) for agent, inheriting in heirs.items()}

    def touch(self, application: str, agents: frozenset[str]) -> Mapping[str, float]:
        touch = dict.fromkeys(agents, 1.0)
        for agent in agents:
            touch |= dict.fromkeys(self._heirs.get(agent, ()), 1.0)
        return touch


class LearnedAccess(AccessModel):
    """Estimates, per application, how much of what agent i touched agent j touches.

    Every call of j gives, for each agent i, the fraction f of the tokens touched by i so far that
    this call touched. The estimate is (sum f + s * prior) / (n + s) with the prior of ``direct``
    (1 for i = j, else 0), and old calls fade by ``decay``, so that it follows a change of the
    application. A node that several agents touched is touched by j unless it misses it by way of
    each of them: 1 - prod(1 - q_ij).
    """

    name = "learned"

    def __init__(self, smoothing: float = 2.0, decay: float = 0.995) -> None:
        self._smoothing = smoothing
        self._decay = decay
        # application -> (i, j) -> [sum of fractions, number of calls], both faded
        self._pairs: dict[str, dict[tuple[str, str], list[float]]] = {}
        self._agents: dict[str, dict[str, None]] = {}

    def touch(self, application: str, agents: frozenset[str]) -> Mapping[str, float]:
        known = self._agents.get(application, {})
        touch: dict[str, float] = {}
        for agent in (*known, *sorted(agents - known.keys())):
            missed = 1.0
            for source in sorted(agents):
                missed *= 1.0 - self.estimate(application, source, agent)
            if missed < 1.0:
                touch[agent] = 1.0 - missed
        return touch

    def estimate(self, application: str, source: str, agent: str) -> float:
        """Share of what ``source`` touched that a call of ``agent`` touches, 0 to 1."""
        total, calls = self._pairs.get(application, {}).get((source, agent), (0.0, 0.0))
        prior = 1.0 if source == agent else 0.0
        return (total + self._smoothing * prior) / (calls + self._smoothing)

    def observe(
        self,
        application: str,
        agent: str,
        known: Iterable[tuple[CacheNode, frozenset[str]]],
        touched: set[int],
    ) -> None:
        all_tokens: dict[str, int] = {}
        touched_tokens: dict[str, int] = {}
        for node, agents in known:
            for source in agents:
                all_tokens[source] = all_tokens.get(source, 0) + node.num_tokens
                if node.node_id in touched:
                    touched_tokens[source] = touched_tokens.get(source, 0) + node.num_tokens
        pairs = self._pairs.setdefault(application, {})
        self._agents.setdefault(application, {})[agent] = None
        for source, tokens in all_tokens.items():
            pair = pairs.setdefault((source, agent), [0.0, 0.0])
            pair[0] = self._decay * pair[0] + touched_tokens.get(source, 0) / max(1, tokens)
            pair[1] = self._decay * pair[1] + 1.0


ACCESS_MODELS = (DirectAccess.name, InheritedAccess.name, LearnedAccess.name)


def make_access_model(name: str, heirs: Mapping[str, Iterable[str]]) -> AccessModel:
    """The model of that name. Raises :class:`SettingsError` listing the choices."""
    if name == DirectAccess.name:
        return DirectAccess()
    if name == InheritedAccess.name:
        return InheritedAccess(heirs)
    if name == LearnedAccess.name:
        return LearnedAccess()
    raise SettingsError(f"unknown access model {name!r}; choose one of: {', '.join(ACCESS_MODELS)}")
