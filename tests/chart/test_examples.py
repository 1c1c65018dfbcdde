"""What is committed beside the chart is what the chart makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import chart_examples, chart_readme
from tests.chart.helm import CHART, EXAMPLES, Helm


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_rendered_examples_are_up_to_date(helm: Helm, folder: Path) -> None:
    wanted = chart_examples.render(helm.binary, folder)
    assert (folder / "rendered.yaml").read_text() == wanted, "run scripts/chart_examples.py"


def test_the_readme_is_up_to_date() -> None:
    current = (CHART / "README.md").read_text()
    wanted = chart_readme.readme(current, (CHART / "values.yaml").read_text())
    assert current == wanted, "run scripts/chart_readme.py"


def test_every_value_is_documented() -> None:
    documented = list(chart_readme.documented_values((CHART / "values.yaml").read_text()))
    assert len(documented) > 100
    assert all(len(meaning) > 3 for _, _, meaning in documented)


def test_a_value_without_a_comment_is_an_error() -> None:
    with pytest.raises(chart_readme.UndocumentedValue, match=r"a\.c"):
        list(chart_readme.documented_values("a:\n  # -- Good.\n  b: 1\n  c: 2\n"))


def test_the_smallest_example_is_ten_lines() -> None:
    lines = (CHART / "examples/kind-cpu/values.yaml").read_text().splitlines()
    assert len([line for line in lines if line and not line.startswith("#")]) <= 10


def test_a_generated_password_is_not_committed() -> None:
    for folder in EXAMPLES:
        rendered = (folder / "rendered.yaml").read_text()
        for line in rendered.splitlines():
            if line.startswith("  password: "):
                assert line == "  password: R0VORVJBVEVE", folder.name
