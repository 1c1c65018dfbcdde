"""The package metadata says what is true."""

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from setuptools import find_packages

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENTRY_POINTS = [
    *PROJECT["project"]["scripts"].values(),
    *(target for group in PROJECT["project"]["entry-points"].values() for target in group.values()),
]


def _pins(lines: list[str]) -> dict[str, str]:
    exact = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)$")
    matches = (exact.match(line) for line in lines)
    return {re.sub("[-_.]+", "-", m[1]).lower(): m[2] for m in matches if m}


CONSTRAINTS = _pins((ROOT / "constraints.txt").read_text().splitlines())
AGENTS = _pins((ROOT / "constraints-agents.txt").read_text().splitlines())


@pytest.mark.parametrize("target", ENTRY_POINTS)
def test_entry_point_resolves(target: str) -> None:
    module, _, attribute = target.partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))


def test_every_top_level_package_is_listed_and_imports() -> None:
    patterns = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    found = {name for name in find_packages(str(ROOT), include=patterns) if "." not in name}
    assert found == {pattern.rstrip("*") for pattern in patterns}
    for name in found:
        importlib.import_module(name)


@pytest.mark.parametrize("extra", [None, "engine", "dev"])
def test_constraints_agree_with_the_pins(extra: str | None) -> None:
    project = PROJECT["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    for name, version in _pins(wanted).items():
        assert CONSTRAINTS[name] == version, name


@pytest.mark.parametrize("extra", [None, "engine", "dev"])
def test_every_requirement_is_locked(extra: str | None) -> None:
    project = PROJECT["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    names = {re.sub("[-_.]+", "-", re.split(r"[\[<>=; ]", line)[0]).lower() for line in wanted}
    assert names - CONSTRAINTS.keys() == set()


def test_the_agent_frameworks_are_locked_at_their_pins() -> None:
    wanted = _pins(PROJECT["project"]["optional-dependencies"]["agents"])
    assert len(wanted) == len(PROJECT["project"]["optional-dependencies"]["agents"])
    assert {name: AGENTS.get(name) for name in wanted} == wanted


def test_sglang_is_the_version_that_the_plug_in_was_made_for() -> None:
    gpu = _pins(PROJECT["project"]["optional-dependencies"]["gpu"])
    assert gpu["sglang"] == CONSTRAINTS["sglang"] == "0.5.23"


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-agents.txt"])
def test_constraints_name_no_local_build_and_no_folder(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"^[^#].*(\+cpu|@|file:|/)", text, re.MULTILINE)
