"""HoVer fact verification in LangGraph: eight agents, one shared transcript, refinement loops."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from loadgen.programs.plan import Plan
from loadgen.tools.retriever import Retriever

_SYSTEM = (
    "You are one of a team of agents that verify a claim against passages of an encyclopedia. "
    "Speak briefly, rely only on the passages in this conversation, and keep to your role."
)
_INSTRUCTIONS = {
    "Planner": "As Planner, list the facts that must hold for the claim to be true.",
    "Query": "As Query writer, write one search query for a fact that is still open.",
    "Retriever": "As Retriever, say which of the passages just found bear on the claim.",
    "Reader": "As Reader, state what those passages say about the open facts.",
    "Judge": "As Judge, say SUFFICIENT if all facts are settled, NEXT if another fact is still "
    "to be searched, MISSING if the last search failed.",
    "Refiner": "As Refiner, say QUERY and a new search, or RETRIEVE to read further results.",
    "Verdict": "As Verdict writer, say SUPPORTED or REFUTED and why; add DOUBT if you are unsure.",
    "Critic": "As Critic, say ACCEPT if the verdict follows from the passages, else REOPEN.",
}
_SUCCESSORS = {
    "Planner": ("Query",),
    "Query": ("Retriever",),
    "Retriever": ("Reader", "Judge"),
    "Reader": ("Judge",),
    "Judge": ("Verdict", "Query", "Refiner"),
    "Refiner": ("Query", "Retriever"),
    "Verdict": (END, "Critic"),
    "Critic": ("Verdict", "Refiner"),
}
# What a model says to go another way than the first of its successors.
_WORDS = {
    "Judge": {"MISSING": "Refiner", "NEXT": "Query"},
    "Refiner": {"RETRIEVE": "Retriever"},
    "Verdict": {"DOUBT": "Critic"},
    "Critic": {"REOPEN": "Refiner"},
}
# What the tools say so that the plan's way is the one that follows from the prompt.
_FINDINGS = {
    ("Retriever", "Reader"): "The passages found are long and have to be read closely.",
    ("Retriever", "Judge"): "The passages found are short and speak for themselves.",
    ("Judge", "Verdict"): "Coverage check: every fact of the plan is settled.",
    ("Judge", "Query"): "Coverage check: this fact is settled, another has not been searched yet.",
    ("Judge", "Refiner"): "Coverage check: the last search did not settle its fact.",
    ("Refiner", "Query"): "Search log: the words of the last query do not occur in the corpus.",
    ("Refiner", "Retriever"): "Search log: the last query has further results that were not read.",
    ("Verdict", END): "Consistency check: the passages agree with one another.",
    ("Verdict", "Critic"): "Consistency check: two passages contradict each other.",
    ("Critic", "Verdict"): "Source check: the contradiction is a matter of wording.",
    ("Critic", "Refiner"): "Source check: one of the sources does not bear on the claim.",
}
_MAX_CALLS = 40


class State(TypedDict):
    """The transcript grows; ``agent`` spoke last."""

    transcript: Annotated[list[tuple[str, str]], operator.add]
    agent: str
    reply: str


async def verify(claim: str, plan: Plan, llm: ChatOpenAI, retriever: Retriever) -> str:
    """Verify one claim; the verdict as it was written."""
    graph = _graph(plan, llm, retriever)
    begin: State = {"transcript": [("user", f"Claim: {claim}")], "agent": "", "reply": claim}
    end = await graph.ainvoke(begin, config={"recursion_limit": 200})
    return str(end["reply"])


def _graph(plan: Plan, llm: ChatOpenAI, retriever: Retriever) -> Any:
    graph = StateGraph(State)
    for agent in _INSTRUCTIONS:
        graph.add_node(agent, _node(agent, plan, llm, retriever))
        graph.add_conditional_edges(agent, _way(agent, plan), list(_SUCCESSORS[agent]))
    graph.add_edge(START, "Planner")
    return graph.compile()


def _node(agent: str, plan: Plan, llm: ChatOpenAI, retriever: Retriever) -> Any:
    async def work(state: State) -> dict[str, Any]:
        added: list[tuple[str, str]] = []
        if agent == "Retriever":
            found = retriever.search(state["reply"] + state["transcript"][0][1])
            added = [("user", "\n".join(f"[{p.title}] {p.text}" for p in found))]
        instruction = _INSTRUCTIONS[agent]
        if plan.follows:
            instruction = f"{_finding(agent, plan)} {instruction}"
        prompt = [("system", _SYSTEM), *state["transcript"], *added, ("user", instruction)]
        reply = str((await llm.ainvoke(prompt)).content)
        plan.answered += 1
        return {"transcript": [*added, ("assistant", reply)], "agent": agent, "reply": reply}

    return work


def _finding(agent: str, plan: Plan) -> str:
    """What the tools found, from which the way after this call follows."""
    agents = plan.agents
    following = agents[plan.answered + 1] if plan.answered + 1 < len(agents) else END
    return _FINDINGS.get((agent, following), "")


def _way(agent: str, plan: Plan) -> Any:
    def choose(state: State) -> str:
        if plan.follows:
            return plan.next_agent() or str(END)
        if plan.answered >= _MAX_CALLS:
            return str(END)
        for word, following in _WORDS.get(agent, {}).items():
            if word in state["reply"]:
                return following
        return str(_SUCCESSORS[agent][0])

    return choose
