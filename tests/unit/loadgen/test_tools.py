"""The tools of the agent programs do what they say."""

import pytest

from loadgen.errors import BadLoad
from loadgen.tools.documents import read_documents, sample_document, sample_question
from loadgen.tools.repository import MODULE, module_in, sample_repository
from loadgen.tools.retriever import Passage, Retriever, read_corpus, sample_corpus
from loadgen.tools.sandbox import run_tests
from pbkv.workload.sample import sample_claims


def test_rare_words_outweigh_common_ones():
    retriever = Retriever(
        [
            Passage("One", "the film was shown in the town"),
            Passage("Two", "the film was made by Brandt"),
            Passage("Three", "the town has a harbour"),
        ]
    )
    assert [p.title for p in retriever.search("the film of Brandt", 2)] == ["Two", "One"]
    assert retriever.search("zebra") == []


def test_the_sample_corpus_answers_its_claims():
    claims = sample_claims(20)
    retriever = Retriever(sample_corpus(claims))
    for claim in claims:
        assert any(claim.text in passage.text for passage in retriever.search(claim.text))


def test_a_corpus_that_is_none(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"title": "x"}\n')
    with pytest.raises(BadLoad, match="no passages"):
        read_corpus(path)


@pytest.mark.parametrize("seed", ["a", "b", "c", "d"])
async def test_the_tests_fail_before_the_repair_and_pass_after(seed):
    repository = sample_repository(seed)
    before = await run_tests(repository.files)
    after = await run_tests(repository.with_module(repository.repaired))
    assert (before.passed, after.passed) == (False, True)
    assert "AssertionError" in before.output
    assert "OK" in after.output


async def test_the_sandbox_has_limits(monkeypatch):
    monkeypatch.setenv("SECRET", "value")
    assert (await run_tests({"test_env.py": unit_test("'SECRET' not in os.environ")})).passed
    greedy = await run_tests({"test_memory.py": unit_test("bytearray(2 * 1024**3)")})
    assert not greedy.passed
    assert "MemoryError" in greedy.output


def unit_test(truth):
    return (
        "import os, unittest\n\n\nclass OneTest(unittest.TestCase):\n"
        f"    def test_one(self):\n        self.assertTrue({truth})\n"
    )


def test_a_module_is_taken_from_a_reply():
    assert module_in("Here:\n```python\nx = 1\n```\ndone") == "x = 1\n"
    assert module_in("no code") is None
    assert MODULE.endswith(".py")


def test_a_search_finds_the_page_of_the_question(tmp_path):
    for seed in "abcdef":
        document = sample_document(seed)
        question = sample_question(document, seed)
        number, page = document.search(question)
        assert question[-5:-1] in page
        assert document.page(number) == page
    (tmp_path / "report.txt").write_text("one\ftwo")
    (document,) = read_documents(tmp_path)
    assert document.page(9) == "two"
