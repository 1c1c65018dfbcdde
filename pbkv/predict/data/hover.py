"""HoVer-like traces whose prompts hold what decides the next agents.

Synthetic, and in which parts: claims are HoVer's (or the generated sample's); the agents, their
call graph and everything said between them are generated. The graph is fitted to one thing only,
the Markov accuracies of the paper's Table 3. Every branch is decided by a *fact* about the
evidence, drawn at random; a note in the transcript states it in one of several wordings before the
branch is taken, and each statement is wrong with probability :attr:`FactGraph.misstated`. So a
model that reads the text can know more than one that sees the agents alone, but not everything:
who knew the stated facts of the last two calls would be right in 99, 95 and 86 % at steps 1 to 3.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from pbkv.predict.data.hover_wording import SYSTEM, entities, wording
from pbkv.predict.data.prompted import PromptedCall, PromptedWorkflow
from pbkv.workload.hover import Claim

Fact = tuple[str, str]
"""What a note states: a question and its answer, such as ("cover", "wrong page")."""

ANSWERS: dict[str, tuple[str, ...]] = {
    "parts": ("one", "two"),
    "tangled": ("no", "yes"),
    "left": ("none", "one"),
    "read": ("no", "yes"),
    "cover": ("settled", "wrong page", "short passage"),
    "doubt": ("no", "yes"),
    "weak": ("wording", "source"),
}


@dataclass(frozen=True, slots=True)
class FactGraph:
    """Probabilities of the facts; pairs are for easy and for hard workflows."""

    hard: float = 0.52
    miss: tuple[float, float] = (0.12, 0.345)
    read: tuple[float, float] = (0.03, 0.9)
    wrong_page: float = 0.62
    doubt: tuple[float, float] = (0.07, 0.405)
    weak_source: float = 0.21
    max_retries: int = 4
    misstated: float = 0.02


@dataclass(frozen=True, slots=True)
class FactCall:
    """A call of ``agent``, and the facts that the note before it states, misstated or not."""

    agent: str
    stated: tuple[Fact, ...]


class _Run:
    """One workflow: the facts drawn so far and the retries that are left."""

    def __init__(self, graph: FactGraph, parts: int, rng: random.Random) -> None:
        self._graph = graph
        self._parts = parts
        self._rng = rng
        self._hard = rng.random() < graph.hard
        self._retries = graph.max_retries
        self._doubt = False

    def calls(self) -> Iterator[FactCall]:
        parts = ("parts", "two" if self._parts == 2 else "one")
        yield self._call("Planner", parts, self._fact("tangled", self._hard))
        for left in range(self._parts - 1, -1, -1):
            yield from self._part(left)
        yield from self._verdict()

    def _part(self, left: int) -> Iterator[FactCall]:
        """Search and read one part of the claim; the last part is judged until it is settled."""
        remaining = ("left", "one" if left else "none")
        query = True
        while True:
            if query:
                yield self._call("Query", remaining)
            cover = self._cover()
            found = remaining if left else ("cover", cover)
            read = self._draw(self._graph.read)
            yield self._call("Retriever", self._fact("read", read), found)
            if read:
                yield self._call("Reader", found)
            if left:
                return
            self._doubt = self._draw_doubt()
            yield self._call("Judge", found, self._fact("doubt", self._doubt))
            if cover == "settled":
                return
            self._retries -= 1
            yield self._call("Refiner", found)
            query = cover == "wrong page"

    def _verdict(self) -> Iterator[FactCall]:
        """Verdicts until no doubt is left; the critic may send the workflow back to the sources."""
        while self._doubt:
            source = self._rng.random() < self._graph.weak_source
            weak = ("weak", "source" if source else "wording")
            yield self._call("Verdict", ("doubt", "yes"), weak)
            self._retries -= 1
            yield self._call("Critic", weak)
            self._doubt = self._draw_doubt()
            if source:
                settled = ("cover", "settled")
                yield self._call("Refiner", weak)
                yield self._call("Retriever", ("read", "no"), settled)
                yield self._call("Judge", settled, self._fact("doubt", self._doubt))
        yield self._call("Verdict", ("doubt", "no"))

    # ---- draws ----

    def _draw(self, probabilities: tuple[float, float]) -> bool:
        return self._rng.random() < probabilities[self._hard]

    def _cover(self) -> str:
        if self._retries == 0 or not self._draw(self._graph.miss):
            return "settled"
        return "wrong page" if self._rng.random() < self._graph.wrong_page else "short passage"

    def _draw_doubt(self) -> bool:
        return self._draw(self._graph.doubt) and self._retries > 0

    @staticmethod
    def _fact(question: str, answer: bool) -> Fact:
        return question, ANSWERS[question][answer]

    def _call(self, agent: str, *facts: Fact) -> FactCall:
        return FactCall(agent, tuple(self._stated(fact) for fact in facts))

    def _stated(self, fact: Fact) -> Fact:
        question, answer = fact
        if self._rng.random() >= self._graph.misstated:
            return fact
        return question, self._rng.choice([a for a in ANSWERS[question] if a != answer])


def fact_calls(hops: int, graph: FactGraph, rng: random.Random) -> list[FactCall]:
    """The calls of one workflow, first to last; claims of three and four hops have two parts."""
    return list(_Run(graph, 1 if hops <= 2 else 2, rng).calls())


def hover_trace(
    claim: Claim, index: int, *, seed: int, graph: FactGraph | None = None
) -> PromptedWorkflow:
    """One workflow that verifies ``claim``, with the text of its prompts."""
    graph = graph or FactGraph()
    rng = random.Random(f"hover-trace/{seed}/{index}/{claim.claim_id}")
    names = entities(claim.text)
    calls = tuple(
        PromptedCall(
            call.agent,
            "".join(f"{wording(fact, names, rng)}\n" for fact in call.stated),
            f"{call.agent}:",
        )
        for call in fact_calls(claim.hops, graph, rng)
    )
    return PromptedWorkflow(f"hover-{seed}-{index}", SYSTEM, f"Claim: {claim.text}\n", calls)
