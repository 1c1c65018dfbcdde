"""Finds passages of a local corpus by BM25."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadgen.errors import BadLoad
from pbkv.workload.hover import Claim

CORPUS_FILE = "hover/corpus.jsonl"

# The usual constants: how fast repeated terms stop counting, and how much length counts.
_K1, _B = 1.2, 0.75
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A titled paragraph."""

    title: str
    text: str


class Retriever:
    """An inverted index over passages."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = passages
        self._lengths: list[int] = []
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for index, passage in enumerate(passages):
            terms = Counter(_terms(f"{passage.title} {passage.text}"))
            self._lengths.append(terms.total())
            for term, count in terms.items():
                self._postings.setdefault(term, []).append((index, count))
        self._mean_length = sum(self._lengths) / max(1, len(passages))

    def search(self, query: str, count: int = 3) -> list[Passage]:
        """The best ``count`` passages that share a word with ``query``, best first."""
        scores: dict[int, float] = {}
        for term in set(_terms(query)):
            found = self._postings.get(term, [])
            rare = math.log(1 + (len(self._passages) - len(found) + 0.5) / (len(found) + 0.5))
            for index, times in found:
                long = 1 - _B + _B * self._lengths[index] / self._mean_length
                gain = rare * times * (_K1 + 1) / (times + _K1 * long)
                scores[index] = scores.get(index, 0.0) + gain
        best = sorted(scores, key=lambda index: (-scores[index], index))[:count]
        return [self._passages[index] for index in best]


def read_corpus(path: Path) -> list[Passage]:
    """Passages of a JSONL file with ``title`` and ``text``. Raises :class:`BadLoad`."""
    try:
        with path.open(encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines if line.strip()]
        return [Passage(str(record["title"]), str(record["text"])) for record in records]
    except OSError as problem:
        raise BadLoad(f"cannot read {path}: {problem.strerror}") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise BadLoad(f"{path} holds no passages: {problem!r}"[:200]) from None


def sample_corpus(claims: Iterable[Claim]) -> list[Passage]:
    """Made-up passages on what the claims speak of, so that a search finds something."""
    passages = []
    for claim in claims:
        names = re.findall(r"(?:[A-Z]\w+ ?)+", claim.text)
        for name in dict.fromkeys(name.strip() for name in names):
            others = ", ".join(dict.fromkeys(n.strip() for n in names if n.strip() != name))
            passages.append(
                Passage(
                    name,
                    f"{name} is described in several sources, among them one on {others}. An early "
                    f"account says: {claim.text} Later accounts repeat it without giving a source, "
                    "and add dates that do not always agree with one another.",
                )
            )
    return passages


def _terms(text: str) -> list[str]:
    return _WORD.findall(text.lower())
