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
        self._learned: dict[str, _Application] = {}

    def touch(self, application: str, agents: frozenset[str]) -> Mapping[str, float]:
        learned = self._learned.get(application)
        if learned is None:
            return dict.fromkeys(sorted(agents), 1.0)
        known = learned.touch.get(agents)
        if known is None:
            # Who never called yet is taken to come back to what it touched, as in ``direct``.
            touch, seen = dict.fromkeys(sorted(agents), 1.0), 0
        else:
            touch, seen = known
            if seen == learned.calls:
                return touch
        stale = [agent for agent, changed in learned.changed.items() if changed > seen]
        if stale:
            touch = touch | self._touch(learned, agents, stale)
        learned.touch[agents] = (touch, learned.calls)
        return touch

    def _touch(
        self, learned: _Application, agents: frozenset[str], by: Iterable[str]
    ) -> dict[str, float]:
        """The answer for the agents in ``by``, each of which has called."""
        touch: dict[str, float] = {}
        sources = sorted(agents)
        for agent in by:
            of_source = learned.estimates[agent]
            missed = 1.0
            for source in sources:
                share = of_source.get(source)
                if share is not None:
                    missed *= 1.0 - share
                elif source == agent:
                    missed = 0.0
            touch[agent] = 1.0 - missed
        return touch

    def estimate(self, application: str, source: str, agent: str) -> float:
        """Share of what ``source`` touched that a call of ``agent`` touches, 0 to 1."""
        learned = self._learned.get(application)
        total, calls = (0.0, 0.0)
        if learned is not None:
            total, calls = learned.pairs.get((source, agent), (0.0, 0.0))
        prior = 1.0 if source == agent else 0.0
        return (total + self._smoothing * prior) / (calls + self._smoothing)

    def observe(
        self,
        application: str,
        agent: str,
        known: Iterable[tuple[CacheNode, frozenset[str]]],
        touched: set[int],
    ) -> None:
        # By set of agents first: a workflow has many nodes and few sets.
        tokens_of: dict[frozenset[str], list[int]] = {}
        for node, agents in known:
            counts = tokens_of.get(agents)
            if counts is None:
                counts = tokens_of[agents] = [0, 0]
            counts[0] += node.num_tokens
            if node.node_id in touched:
                counts[1] += node.num_tokens
        all_tokens: dict[str, int] = {}
        touched_tokens: dict[str, int] = {}
        for agents, (tokens, hit) in tokens_of.items():
            for source in agents:
                all_tokens[source] = all_tokens.get(source, 0) + tokens
                touched_tokens[source] = touched_tokens.get(source, 0) + hit
        learned = self._learned.setdefault(application, _Application())
        estimates = learned.estimates.setdefault(agent, {})
        for source, tokens in all_tokens.items():
            pair = learned.pairs.setdefault((source, agent), [0.0, 0.0])
            pair[0] = self._decay * pair[0] + touched_tokens[source] / max(1, tokens)
            pair[1] = self._decay * pair[1] + 1.0
            estimates[source] = self.estimate(application, source, agent)
        learned.calls += 1
        learned.changed[agent] = learned.calls


class _Application:
    """What was learned of one application.

    ``pairs`` holds (i, j) -> [sum of fractions, number of calls], both faded; ``estimates`` is
    j -> i -> what follows from it, for every j that ever called, and ``changed`` the number of the
    call that changed those of j last. ``touch`` keeps an answer for each set of agents, and the
    number of calls that it knows of: a call changes the estimates of one agent alone.
    """

    __slots__ = ("calls", "changed", "estimates", "pairs", "touch")

    def __init__(self) -> None:
        self.calls = 0
        self.changed: dict[str, int] = {}
        self.pairs: dict[tuple[str, str], list[float]] = {}
        self.estimates: dict[str, dict[str, float]] = {}
        self.touch: dict[frozenset[str], tuple[dict[str, float], int]] = {}


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
