"""Real helm and kubectl; tests skip where they cannot be fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.kubernetes_tools import ToolsUnavailable, tool
from tests.chart.helm import Helm


def binary(name: str) -> Path:
    try:
        return tool(name)
    except ToolsUnavailable as problem:
        pytest.skip(str(problem))


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """Helm 4."""
    return Helm(binary("helm-4"), tmp_path)


@pytest.fixture(params=["helm-3", "helm-4"])
def each_helm(request: pytest.FixtureRequest, tmp_path: Path) -> Helm:
    """Both majors in turn."""
    return Helm(binary(request.param), tmp_path)


@pytest.fixture
def kubectl() -> Path:
    return binary("kubectl")
