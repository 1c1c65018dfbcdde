"""Checks of a cluster, against the stand-in API server in the states that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("kubernetes", reason="the extra `cluster` is not installed")

from kubernetes import client

from services.doctor.cluster import GPU, Plan, check_cluster
from services.doctor.finding import Finding, Verdict
from services.fleet.cluster import Cluster
from services.ports import free_port
from tests.chart.apiserver import ApiServer, Fault
from tests.chart.apiserver.faults import Kind

PLAN = Plan("pbkv", "ray", gpus=2)


def connect(url: str) -> Cluster:
    configuration = client.Configuration()
    configuration.host = url
    return Cluster(configuration)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    """A cluster with everything that the chart needs."""
    with ApiServer() as server:
        server.add_custom_kinds()
        server.add(operator())
        server.add(node())
        server.add(storage_class())
        yield server


def operator(available: int = 1) -> Any:
    container = {"name": "o", "image": "kuberay/operator:v1.4.2"}
    labels = {"app.kubernetes.io/name": "kuberay-operator"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kuberay-operator", "namespace": "kuberay", "labels": labels},
        "spec": {
            "replicas": available,
            "template": {"metadata": {}, "spec": {"containers": [container]}},
        },
    }


def node(gpus: str = "4", **spec: Any) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": spec,
        "status": {"allocatable": {GPU: gpus, "cpu": "8"}},
    }


def storage_class(default: str = "true") -> Any:
    annotations = {"storageclass.kubernetes.io/is-default-class": default}
    metadata = {"name": "standard", "annotations": annotations}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata}


def quota(hard: dict[str, str], used: dict[str, str]) -> Any:
    metadata = {"name": "team", "namespace": "pbkv"}
    status = {"hard": hard, "used": used}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status}


def pod(status: dict[str, Any]) -> Any:
    labels = {"app.kubernetes.io/part-of": "pbkv"}
    metadata = {"name": "p1", "namespace": "pbkv", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": status}


def waiting(reason: str) -> dict[str, Any]:
    container = {"name": "c", "image": "pbkv/engine:0", "state": {"waiting": {"reason": reason}}}
    return {"containerStatuses": [container]}


def found(api: ApiServer, check: str, plan: Plan = PLAN) -> Finding:
    (finding,) = [f for f in check_cluster(connect(api.url), plan) if f.check == check]
    return finding


def test_a_good_cluster_passes_every_check(api: ApiServer) -> None:
    findings = check_cluster(connect(api.url), PLAN)
    assert {f.check: f.verdict for f in findings} == {
        "Kubernetes": Verdict.OK,
        "rights": Verdict.OK,
        "KubeRay": Verdict.OK,
        "GPUs": Verdict.OK,
        "storage": Verdict.OK,
        "quota": Verdict.OK,
        "pods": Verdict.SKIPPED,
    }


def test_a_laptop_needs_neither_ray_nor_gpus() -> None:
    with ApiServer() as bare:
        bare.add(storage_class())
        findings = check_cluster(connect(bare.url), Plan("pbkv", "cpu"))
    assert {f.check for f in findings} == {"Kubernetes", "rights", "storage", "quota", "pods"}
    assert all(f.verdict in (Verdict.OK, Verdict.SKIPPED) for f in findings)


@pytest.mark.parametrize(
    ("item", "check", "verdict", "detail"),
    [
        (operator(available=0), "KubeRay", Verdict.FAILED, "is not available"),
        (node("0"), "GPUs", Verdict.FAILED, f"offers {GPU}"),
        (node("1"), "GPUs", Verdict.WARNING, "1 in all, 2 are planned"),
        (node("4", unschedulable=True), "GPUs", Verdict.FAILED, "no node of 0"),
        (storage_class("false"), "storage", Verdict.WARNING, "no class is the default"),
        (quota({"pods": "5"}, {"pods": "5"}), "quota", Verdict.FAILED, "used up: pods"),
        (
            quota({f"requests.{GPU}": "4"}, {f"requests.{GPU}": "3"}),
            "quota",
            Verdict.WARNING,
            "leaves 1 GPUs of 2",
        ),
        (pod(waiting("ImagePullBackOff")), "pod p1", Verdict.FAILED, "engine:0 cannot be pulled"),
        (pod(waiting("CrashLoopBackOff")), "pod p1", Verdict.FAILED, "c keeps ending"),
        (
            pod(
                {
                    "conditions": [
                        {"type": "PodScheduled", "status": "False", "message": "no GPU is left"}
                    ]
                }
            ),
            "pod p1",
            Verdict.FAILED,
            "no GPU is left",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_found_with_a_fix(
    api: ApiServer, item: Any, check: str, verdict: Verdict, detail: str
) -> None:
    api.add(item)
    finding = found(api, check)
    assert finding.verdict is verdict
    assert detail in finding.detail
    assert finding.fix and "\n" not in finding.fix


def test_a_ray_service_that_is_not_ready_says_why(api: ApiServer) -> None:
    condition = {"type": "Ready", "status": "False", "message": "no serve endpoints"}
    api.add(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayService",
            "metadata": {"name": "s", "namespace": "pbkv"},
            "status": {"conditions": [condition]},
        }
    )
    finding = found(api, "RayService s")
    assert (finding.verdict, finding.detail) == (Verdict.WARNING, "no serve endpoints")


def test_without_the_operator_its_installation_is_the_fix() -> None:
    with ApiServer() as bare:
        finding = found(bare, "KubeRay")
    assert finding.verdict is Verdict.FAILED
    assert finding.fix.startswith("helm install kuberay-operator")


def test_what_may_not_be_read_is_skipped_and_the_rest_goes_on(api: ApiServer) -> None:
    api.faults.plan(Fault(Kind.REFUSE, "/api/v1/nodes", code=403))
    findings = {f.check: f.verdict for f in check_cluster(connect(api.url), PLAN)}
    assert findings["gpus"] is Verdict.SKIPPED
    assert findings["storage"] is Verdict.OK


def test_a_server_that_does_not_answer_ends_the_checks() -> None:
    (finding,) = check_cluster(connect(f"http://127.0.0.1:{free_port()}"), PLAN)
    assert finding.verdict is Verdict.FAILED
    assert finding.detail.startswith("does not answer")
