"""Agent names as columns, with one column for the agents that nobody foresaw."""

from __future__ import annotations

from collections.abc import Iterable

UNKNOWN_AGENT = "<unknown>"
"""Name of column 0. A policy finds no node that this agent accessed, so its share is lost."""

UNKNOWN_COLUMN = 0

MAX_AGENTS = 256
"""Agents that get a column of their own: names come from clients."""


class Vocabulary:
    """Columns of agents: 0 is :data:`UNKNOWN_AGENT`, the others come in order of first sight.

    Beyond ``max_agents`` no agent gets a column of its own.
    """

    def __init__(self, agents: Iterable[str] = (), *, max_agents: int = MAX_AGENTS) -> None:
        self._max_agents = max_agents
        self._columns: dict[str, int] = {UNKNOWN_AGENT: 0}
        self._agents: tuple[str, ...] = (UNKNOWN_AGENT,)
        for agent in agents:
            self.learn(agent)

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def agents(self) -> tuple[str, ...]:
        """Names by column. The same object until an agent is learnt."""
        return self._agents

    def column(self, agent: str) -> int:
        """The agent's column, 0 if it has none."""
        return self._columns.get(agent, 0)

    def learn(self, agent: str) -> int:
        """The agent's column, a new one if there is room, else 0."""
        column = self._columns.get(agent)
        if column is None:
            if len(self._agents) > self._max_agents:
                return 0
            column = self._columns[agent] = len(self._agents)
            self._agents = (*self._agents, agent)
        return column
