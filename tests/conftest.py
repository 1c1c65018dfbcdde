"""What holds for every test."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, and no example fails for being slow: machines are shared.
settings.register_profile(
    "pbkv", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("pbkv")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For ``-n`` without a ``--dist`` of the user's own."""
    if config.getvalue("dist") != "load":
        return None
    from tests.spread import GroupScheduling

    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        from tests.spread import starting_rank

        items.sort(key=lambda item: starting_rank(item.nodeid))
