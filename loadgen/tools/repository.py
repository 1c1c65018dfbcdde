"""Small repositories with one bug each, made from a seed: what the coding agents work on."""

from __future__ import annotations

import random
from dataclasses import dataclass

MODULE = "statistics_of_orders.py"
TESTS = "test_orders.py"

_BUGS = (
    ("return sum(values) / (len(values) + 1)", "return sum(values) / len(values)", "mean"),
    (
        "return sorted(values)[len(values) // 3]",
        "return sorted(values)[len(values) // 2]",
        "middle",
    ),
    ("return max(values) + min(values)", "return max(values) - min(values)", "spread"),
)


@dataclass(frozen=True, slots=True)
class Repository:
    """``files`` with the bug; ``repaired`` is the module without it."""

    issue: str
    files: dict[str, str]
    repaired: str

    def with_module(self, text: str) -> dict[str, str]:
        return {**self.files, MODULE: text}


def sample_repository(seed: str) -> Repository:
    """One function, one test file, one bug."""
    rng = random.Random(f"repository/{seed}")
    wrong, right, name = rng.choice(_BUGS)
    values = rng.sample(range(2, 90), 5)
    expected = {
        "mean": sum(values) / len(values),
        "middle": sorted(values)[len(values) // 2],
        "spread": max(values) - min(values),
    }[name]
    head = f'"""Figures of a shop\'s orders."""\n\n\ndef {name}(values):\n    '
    tests = (
        f"import sys\nimport unittest\n\nsys.path.insert(0, '.')\n\nimport {MODULE[:-3]}\n\n\n"
        "class OrdersTest(unittest.TestCase):\n"
        f"    def test_{name}(self):\n"
        f"        self.assertAlmostEqual({MODULE[:-3]}.{name}({values}), {expected!r})\n"
    )
    issue = f"{name}({values}) should be {expected!r}, but {MODULE} returns something else."
    return Repository(issue, {MODULE: f"{head}{wrong}\n", TESTS: tests}, f"{head}{right}\n")


def module_in(reply: str) -> str | None:
    """The last Python block of a model's reply, if it has one."""
    blocks = reply.split("```python")[1:]
    return blocks[-1].partition("```")[0].strip() + "\n" if blocks else None
