"""The life of a release, by real helm against the stand-in API server.

It validates every object and keeps state; it runs no pod (see :mod:`tests.chart.apiserver`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.apiserver import ApiServer
from tests.chart.helm import CHART, EXAMPLES, Helm, Refused

NAMESPACE = "pbkv"


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        server.add_custom_kinds()
        yield server


class Cluster:
    """A helm that talks to the stand-in."""

    def __init__(self, api: ApiServer, helm: Helm) -> None:
        self.api = api
        self.helm = helm
        self.kubeconfig = api.kubeconfig(helm.scratch / "kubeconfig")

    def run(self, *arguments: str) -> str:
        flags = ("--kubeconfig", str(self.kubeconfig), "--namespace", NAMESPACE)
        return self.helm.run(*arguments, *flags)

    def install(self, *arguments: str) -> str:
        flags = ("--create-namespace", "--wait", "--timeout", "60s")
        return self.run("install", "pbkv", str(CHART), *flags, *arguments)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        version = {"Deployment": "apps/v1", "RayService": "ray.io/v1"}.get(kind, "v1")
        metadata = {"name": name, "namespace": NAMESPACE}
        return self.api.store.get(self.api.key(version, kind, metadata))

    def left(self) -> list[str]:
        """What is in the namespace, but for the release's own record."""
        found = []
        for kind in ("deployments", "statefulsets", "services", "secrets", "pods", "configmaps"):
            version = "apps/v1" if kind in ("deployments", "statefulsets") else "v1"
            resource = self.api.discovery.find(version, kind)
            assert resource is not None
            found += [key.name for key, _ in self.api.store.list(resource, NAMESPACE)]
        return [name for name in found if not name.startswith("sh.helm.release")]


@pytest.fixture
def cluster(api: ApiServer, each_helm: Helm) -> Cluster:
    return Cluster(api, each_helm)


def test_install_upgrade_rollback_test_uninstall(cluster: Cluster) -> None:
    values = str(CHART / "examples/kind-cpu/values.yaml")
    printed = cluster.install("--values", values)
    assert "STATUS: deployed" in printed
    assert "port-forward svc/pbkv-router" in printed
    router = cluster.get("Deployment", "pbkv-router")
    assert router and router["spec"]["replicas"] == 1
    password = cluster.get("Secret", "pbkv-redis")

    cluster.run("upgrade", "pbkv", str(CHART), "--values", values, "--set", "router.replicas=3")
    router = cluster.get("Deployment", "pbkv-router")
    assert router and router["spec"]["replicas"] == 3
    kept = cluster.get("Secret", "pbkv-redis")
    assert password and kept and kept["data"] == password["data"], "the password was made anew"

    cluster.run("rollback", "pbkv", "1")
    router = cluster.get("Deployment", "pbkv-router")
    assert router and router["spec"]["replicas"] == 1

    assert "Succeeded" in cluster.run("test", "pbkv")
    cluster.run("uninstall", "pbkv", "--wait")
    # Helm leaves the hook's ConfigMap, as its delete policy says.
    assert set(cluster.left()) <= {"pbkv-test"}


def test_an_upgrade_removes_what_is_switched_off(cluster: Cluster) -> None:
    values = str(CHART / "examples/kind-cpu/values.yaml")
    cluster.install("--values", values)
    assert cluster.get("Deployment", "pbkv-fleet")
    off = ("--set", "fleet.enabled=false", "--set", "engine.kvTokens=null")
    cluster.run("upgrade", "pbkv", str(CHART), "--values", values, *off)
    assert cluster.get("Deployment", "pbkv-fleet") is None
    engine = cluster.get("Deployment", "pbkv-engine-smollm2")
    assert engine
    arguments = engine["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not [a for a in arguments if a.startswith("--kv-tokens")]


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_every_example_installs(api: ApiServer, helm: Helm, folder: Path) -> None:
    cluster = Cluster(api, helm)
    assert "STATUS: deployed" in cluster.install("--values", str(folder / "values.yaml"))


def test_without_the_operator_the_install_fails(helm: Helm) -> None:
    with ApiServer() as bare, pytest.raises(Refused, match="could not find the requested resource"):
        Cluster(bare, helm).install()


def test_an_object_that_breaks_a_schema_is_refused_by_the_server(
    api: ApiServer, helm: Helm
) -> None:
    bad = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"prots": 1}}
    values = helm.values_file({"engine": {"mode": "cpu"}, "extraObjects": [bad]})
    with pytest.raises(Refused, match="prots"):
        Cluster(api, helm).install("--values", str(values))


def test_kubectl_reads_and_changes_the_release(api: ApiServer, helm: Helm, kubectl: Path) -> None:
    cluster = Cluster(api, helm)
    cluster.install("--values", str(CHART / "examples/kind-cpu/values.yaml"))

    def run(*arguments: str) -> str:
        argv = [str(kubectl), "--kubeconfig", str(cluster.kubeconfig), "--namespace", NAMESPACE]
        done = subprocess.run(
            [*argv, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    selector = "app.kubernetes.io/instance=pbkv,app.kubernetes.io/component=router"
    pods = json.loads(run("get", "pods", "--selector", selector, "--output", "json"))["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Running"]
    run("scale", "deployment/pbkv-router", "--replicas=2")
    router = cluster.get("Deployment", "pbkv-router")
    assert router and router["spec"]["replicas"] == 2
    run("wait", "--for=condition=Available", "deployment/pbkv-router", "--timeout=10s")
