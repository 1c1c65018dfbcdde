"""The stand-in API server, and the watcher's connection to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("kubernetes", reason="the extra `cluster` is not installed")

from kubernetes import client

from services.fleet.cluster import Cluster
from tests.chart.apiserver import ApiServer


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def cluster(api: ApiServer) -> Cluster:
    configuration = client.Configuration()
    configuration.host = api.url
    return Cluster(configuration, quiet_margin_s=0.2)
