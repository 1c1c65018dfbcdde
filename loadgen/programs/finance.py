"""FinanceBench analysis in CrewAI: five agents in a fixed order, two tasks each."""

from __future__ import annotations

from crewai import LLM, Agent, Crew, Process, Task

from loadgen.programs.plan import Plan
from loadgen.tools.documents import Document

_ROLES = {
    "Locator": "finds the page of a report that answers a question",
    "Extractor": "copies the figures that matter from a page, with their units",
    "Analyst": "computes the answer from the figures, step by step",
    "Verifier": "checks every figure and every step against the page",
    "Writer": "answers in two sentences and names the page",
}
_FIRST = {
    "Locator": "Page {number}:\n{page}\n\nQuestion: {question}\nSay which items are needed.",
    "Extractor": "Page {number}:\n{page}\n\nQuestion: {question}\nCopy the figures that matter.",
    "Analyst": "Evidence:\n{evidence}\n\nQuestion: {question}\nCompute the answer.",
    "Verifier": "Evidence:\n{evidence}\n\nQuestion: {question}\nCheck the computation.",
    "Writer": "Question: {question}\nDraft the answer.",
}
_SECOND = {
    "Locator": "The reader found this on page {number}: {evidence}\nConfirm your choice.",
    "Extractor": "The reader gives the same lines once more: {evidence}\nCorrect your figures.",
    "Analyst": "Round the result as the question asks.",
    "Verifier": "Say VERIFIED, or what is wrong.",
    "Writer": "Write the final answer.",
}


async def analyse(question: str, document: Document, plan: Plan, llm: LLM) -> str:
    """Answer one question on one document."""
    number, page = document.search(question)
    wanted = {word.strip("?,.").lower() for word in question.split()}
    lines = [line for line in page.splitlines() if wanted & set(line.lower().split())]
    facts = {
        "number": number,
        "page": page,
        "question": question,
        "evidence": "\n".join(lines) or page,
    }
    agents = {
        role: Agent(
            role=role,
            goal=f"A colleague who {does}",
            backstory=f"You are the {role} of a team of financial analysts. The {role} {does}.",
            llm=llm,
            allow_delegation=False,
            verbose=False,
        )
        for role, does in _ROLES.items()
    }
    tasks: list[Task] = []
    for role, agent in agents.items():
        for text in (_FIRST[role], _SECOND[role]):
            task = Task(
                description=text.format(**facts),
                expected_output="a short text",
                agent=agent,
                context=tasks[-1:],
            )
            tasks.append(task)

    crew = Crew(
        agents=list(agents.values()),
        tasks=tasks,
        process=Process.sequential,
        verbose=False,
        memory=False,
        cache=False,
        task_callback=lambda output: _count(plan),
    )
    result = await crew.akickoff()
    return str(result.raw)


def _count(plan: Plan) -> None:
    plan.answered += 1
