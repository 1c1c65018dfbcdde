"""Reads pages of company reports: text files of a folder, or made-up ones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from loadgen.errors import BadLoad
from loadgen.tools.retriever import Passage, Retriever

DOCUMENTS_DIR = "financebench/documents"

_ITEMS = (
    "Revenue", "Cost of sales", "Operating income", "Net income", "Total assets", "Inventories",
    "Capital expenditure", "Cash and equivalents", "Long-term debt", "Dividends paid",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Document:
    """A report and its pages, in order."""

    name: str
    pages: tuple[str, ...]

    def page(self, number: int) -> str:
        """Page ``number``, from 1; beyond the end the last."""
        return self.pages[min(max(number, 1), len(self.pages)) - 1]

    def search(self, words: str) -> tuple[int, str]:
        """Number and text of the page that fits best; the first if none does."""
        passages = [Passage(f"{self.name} {i}", page) for i, page in enumerate(self.pages, 1)]
        found = Retriever(passages).search(words, 1)
        number = passages.index(found[0]) + 1 if found else 1
        return number, self.page(number)


def read_documents(folder: Path) -> list[Document]:
    """Every ``.txt`` of ``folder``; a form feed parts its pages. Raises :class:`BadLoad`."""
    documents = []
    for path in sorted(folder.glob("*.txt")):
        try:
            pages = tuple(page.strip() for page in path.read_text(encoding="utf-8").split("\f"))
        except (OSError, UnicodeDecodeError) as problem:
            raise BadLoad(f"cannot read {path}: {problem}") from None
        documents.append(Document(path.stem, pages))
    if not documents:
        raise BadLoad(f"{folder} holds no .txt documents")
    return documents


def sample_document(seed: str, pages: int = 4) -> Document:
    """A made-up report with a statement on every page."""
    rng = random.Random(f"document/{seed}")
    name = f"Company {rng.randrange(100, 999)} annual report"
    made = []
    for year in range(2020, 2020 + pages):
        rows = "\n".join(f"{item}: {rng.randrange(100, 99_999):,} thousand" for item in _ITEMS)
        made.append(f"{name}, fiscal year {year}\nConsolidated statements\n{rows}")
    return Document(name, tuple(made))


def sample_question(document: Document, seed: str) -> str:
    """A question that one page of ``document`` answers."""
    rng = random.Random(f"question/{seed}")
    first, second = rng.sample(_ITEMS, 2)
    year = 2020 + rng.randrange(len(document.pages))
    return f"What was the ratio of {first} to {second} of {document.name} in fiscal year {year}?"
