"""How the tests are spread over processes."""

import re
from pathlib import Path

from tests.spread import _OWN_ENGINES, group_of, starting_rank

ENGINE = Path(__file__).parents[1] / "engine"


def test_what_shares_an_engine_or_the_stack_stays_together() -> None:
    assert group_of("tests/stack/test_faults.py::test_x") == "stack"
    assert group_of("tests/engine/test_lae.py::test_x[cpu]") == "shared engines"
    assert group_of("tests/unit/test_pace.py::TestX::test_y") == "tests/unit/test_pace.py"


def test_files_with_engines_of_their_own_use_no_shared_one() -> None:
    shared = re.compile(r"def test_\w+\([^)]*\b(stock|lae|states|unpredicted|pair)\b")
    for name in _OWN_ENGINES:
        assert not shared.search((ENGINE / f"{name}.py").read_text()), name


def test_the_longest_begin_first() -> None:
    files = ("engine/test_lae", "stack/test_drain", "engine/test_lora", "chart/test_kinds")
    assert [starting_rank(f"tests/{name}.py::test_x") for name in files] == [0, 1, 2, 3]
