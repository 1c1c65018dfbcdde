"""FinanceBench-like question answering: five agents in a fixed order, two calls each.

The order never changes, so that KVFlow's static graph describes it. Prompts are built as CrewAI
does: an agent's own system prompt first, then its task; the page of the document stands before the
question, so that questions on one document share it. Lengths of questions, evidence and pages are
drawn from log-normal fits to the published data set's quantiles, at its ratio of questions to
documents; or taken from the data set itself, which has a non-commercial licence and is not shipped.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from pathlib import Path

from pbkv.workload.data import WorkloadDataError
from pbkv.workload.script import ScriptedCall, ScriptedWorkflow, Segment

AGENTS = ("Locator", "Extractor", "Analyst", "Verifier", "Writer")

CALLS_PER_AGENT = 2

GRAPH = {
    "Locator": ["Locator", "Extractor"],
    "Extractor": ["Extractor", "Analyst"],
    "Analyst": ["Analyst", "Verifier"],
    "Verifier": ["Verifier", "Writer"],
    "Writer": ["Writer"],
}
"""The static graph: which agents may follow each."""

DOCUMENTS_PER_QUESTION = 84 / 150

DATA_FILE = "financebench/financebench_open_source.jsonl"

CHARACTERS_PER_TOKEN = 4.0
"""Of the data set's English and figures; counting with a tokenizer would need a model."""

_READS_PAGE = frozenset({"Locator", "Extractor"})
_READS_EVIDENCE = frozenset({"Analyst", "Verifier"})


@dataclass(frozen=True, slots=True)
class FinanceSizes:
    """Token counts at scale 1: medians and 90th percentiles of the data set, and assumptions for
    what the crew adds: system prompts, tool results, replies."""

    question: tuple[int, int] = (33, 73)
    evidence: tuple[int, int] = (580, 1349)
    page: tuple[int, int] = (967, 1701)
    system: int = 220
    tool_result: tuple[int, int] = (120, 260)
    output: tuple[int, int] = (97, 180)
    pause_mean_s: float = 1.0


@dataclass(frozen=True, slots=True)
class FinanceQuestion:
    """A question, the page of the document that it is asked of, and the evidence in it."""

    question_id: str
    document: str
    page_tokens: int
    question_tokens: int
    evidence_tokens: int


def sample_questions(
    count: int, seed: int = 0, sizes: FinanceSizes | None = None
) -> list[FinanceQuestion]:
    """``count`` synthetic questions over 84 documents for every 150 of them."""
    sizes = sizes or FinanceSizes()
    rng = random.Random(f"finance/{seed}")
    pages = [
        round(_log_normal(rng, *sizes.page))
        for _ in range(max(1, round(count * DOCUMENTS_PER_QUESTION)))
    ]
    questions = []
    for index in range(count):
        document = rng.randrange(len(pages))
        questions.append(
            FinanceQuestion(
                question_id=f"sample-{index}",
                document=f"{seed}/{document}",
                page_tokens=pages[document],
                question_tokens=round(_log_normal(rng, *sizes.question)),
                evidence_tokens=round(_log_normal(rng, *sizes.evidence)),
            )
        )
    return questions


def load_questions(data_dir: Path) -> list[FinanceQuestion]:
    """FinanceBench's open questions, with the page of the first piece of evidence.

    Raises :class:`WorkloadDataError`.
    """
    path = data_dir / DATA_FILE
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise WorkloadDataError(f"cannot read {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise WorkloadDataError(f"{path} is not text") from None
    questions = []
    for number, line in enumerate(filter(None, lines), start=1):
        try:
            record = json.loads(line)
            evidence = record["evidence"][0]
            questions.append(
                FinanceQuestion(
                    question_id=str(record["financebench_id"]),
                    document=f"{record['doc_name']}/{evidence['evidence_page_num']}",
                    page_tokens=_tokens(evidence["evidence_text_full_page"]),
                    question_tokens=_tokens(record["question"]),
                    evidence_tokens=_tokens(evidence["evidence_text"]),
                )
            )
        except (ValueError, TypeError, KeyError, IndexError) as problem:
            raise WorkloadDataError(
                f"{path}: line {number} is no question of FinanceBench: {problem!r}"
            ) from None
    if not questions:
        raise WorkloadDataError(f"{path}: no FinanceBench questions")
    return questions


def _tokens(text: str) -> int:
    return max(1, round(len(text) / CHARACTERS_PER_TOKEN))


def financebench_workflow(
    question: FinanceQuestion,
    index: int,
    *,
    seed: int,
    scale: float = 1.0,
    sizes: FinanceSizes | None = None,
) -> ScriptedWorkflow:
    """One workflow that answers ``question``. Token counts are multiplied by ``scale``."""
    sizes = sizes or FinanceSizes()
    rng = random.Random(f"financebench/{seed}/{index}/{question.question_id}")
    workflow_id = f"financebench-{seed}-{index}"

    def tokens(count: float) -> int:
        return max(1, round(count * scale))

    asked = Segment(f"{workflow_id}/question", tokens(question.question_tokens))
    page = Segment(f"finance/page/{question.document}", tokens(question.page_tokens))
    evidence = Segment(f"{workflow_id}/evidence", tokens(question.evidence_tokens))
    contexts: dict[str, tuple[Segment, ...]] = {}
    calls: list[ScriptedCall] = []
    handed_over: tuple[Segment, ...] = ()
    for agent in AGENTS:
        held = [Segment(f"finance/system/{agent}", tokens(sizes.system))]
        held += [page] if agent in _READS_PAGE else []
        held += [evidence] if agent in _READS_EVIDENCE else []
        contexts[agent] = (*held, asked)
        added = handed_over
        for turn in range(CALLS_PER_AGENT):
            if turn:
                result = tokens(_log_normal(rng, *sizes.tool_result))
                added = (Segment(f"{workflow_id}/{agent}/tool", result),)
            calls.append(
                ScriptedCall(
                    agent=agent,
                    context=agent,
                    added=added,
                    instruction=(),
                    output_tokens=tokens(_log_normal(rng, *sizes.output)),
                    pause_s=rng.expovariate(1.0 / sizes.pause_mean_s),
                )
            )
        # The next agent reads the report of this one, as text of its own prompt.
        handed_over = (Segment(f"{workflow_id}/{agent}/report", calls[-1].output_tokens),)
    return ScriptedWorkflow(workflow_id, contexts, tuple(calls))


def _log_normal(rng: random.Random, median: float, p90: float) -> float:
    """A draw from the log-normal with this median and 90th percentile."""
    return median * math.exp(rng.gauss(0.0, math.log(p90 / median) / 1.2816))
