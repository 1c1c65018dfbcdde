"""Checks of a Kubernetes cluster: would the chart install and run here?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from services.doctor.finding import Finding, failed, healthy, ok, skipped, warning
from services.fleet.errors import FleetError, NotFound

OLDEST_KUBERNETES = (1, 30)
GPU = "nvidia.com/gpu"

_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayservices.ray.io"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_INSTALL_KUBERAY = (
    "helm install kuberay-operator kuberay-operator"
    " --repo https://ray-project.github.io/kuberay-helm/ -n kuberay-system --create-namespace"
)


class Api(Protocol):
    """What the checks need of :class:`services.fleet.cluster.Cluster`."""

    def get(self, path: str, **query: str) -> dict[str, Any]: ...
    def create(self, path: str, item: Any) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be installed: ``mode`` is ``engine.mode`` of the chart, ``gpus`` what all its
    replicas take together.
    """

    namespace: str
    mode: str = "ray"
    gpus: int = 1


def check_cluster(api: Api, plan: Plan) -> list[Finding]:
    """All checks, in the order in which their fixes make sense."""
    version = _guarded(check_version, api, plan)
    if not healthy(version):
        # Nothing else is worth asking.
        return version
    checks: list[Callable[[Api, Plan], list[Finding]]] = [check_rights]
    if plan.mode == "ray":
        checks += [check_kuberay, check_gpus]
    checks += [check_storage, check_quota, check_pods]
    if plan.mode == "ray":
        checks.append(check_ray_services)
    return [*version, *(finding for check in checks for finding in _guarded(check, api, plan))]


def check_version(api: Api, plan: Plan) -> list[Finding]:
    """The API server answers and is not too old."""
    name = "Kubernetes"
    try:
        answer = api.get("/version")
    except FleetError as problem:
        fix = "kubectl cluster-info   # the same kubeconfig must work there"
        return [failed(name, f"does not answer: {problem}", fix)]
    text = str(answer.get("gitVersion", ""))
    numbers = tuple(int(n) for n in re.findall(r"\d+", text)[:2])
    if numbers < OLDEST_KUBERNETES:
        oldest = ".".join(map(str, OLDEST_KUBERNETES))
        return [failed(name, f"{text} is too old", f"upgrade the cluster to {oldest} or newer")]
    return [ok(name, text)]


def check_rights(api: Api, plan: Plan) -> list[Finding]:
    """The user may create what the chart makes."""
    wanted = [("apps", "deployments"), ("", "secrets"), ("networking.k8s.io", "networkpolicies")]
    if plan.mode == "ray":
        wanted.append(("ray.io", "rayservices"))
    denied = [resource for group, resource in wanted if not _allowed(api, plan, group, resource)]
    if denied:
        fix = f"ask for the role `admin` in namespace {plan.namespace}, and for rayservices.ray.io"
        return [failed("rights", f"may not create {', '.join(denied)}", fix)]
    return [ok("rights", f"may create what the chart makes in {plan.namespace}")]


def check_kuberay(api: Api, plan: Plan) -> list[Finding]:
    """Its definitions have what the chart uses, and its operator runs."""
    try:
        definition = api.get(_CRD)
    except NotFound:
        return [failed("KubeRay", "is not installed", _INSTALL_KUBERAY)]
    served = {version["name"]: version for version in definition["spec"]["versions"]}
    schema = served.get("v1", {}).get("schema", {}).get("openAPIV3Schema", {})
    fields = schema.get("properties", {}).get("spec", {}).get("properties", {})
    if "v1" not in served or (fields and "rayClusterDeletionDelaySeconds" not in fields):
        upgrade = "upgrade the KubeRay operator and its CRDs to 1.4 or newer"
        return [failed("KubeRay", "its RayService is older than the chart needs", upgrade)]
    listed = api.get(
        "/apis/apps/v1/deployments", labelSelector="app.kubernetes.io/name=kuberay-operator"
    )["items"]
    if not listed:
        return [failed("KubeRay", "the CRDs are there, but no operator", _INSTALL_KUBERAY)]
    metadata, status = listed[0]["metadata"], listed[0].get("status", {})
    image = listed[0]["spec"]["template"]["spec"]["containers"][0]["image"]
    if not status.get("availableReplicas"):
        fix = f"kubectl -n {metadata['namespace']} describe deployment {metadata['name']}"
        return [failed("KubeRay", f"the operator {image} is not available", fix)]
    return [ok("KubeRay", f"operator {image}")]


def check_gpus(api: Api, plan: Plan) -> list[Finding]:
    """Enough GPUs are allocatable on nodes that take pods."""
    nodes = [n for n in api.get("/api/v1/nodes")["items"] if not n["spec"].get("unschedulable")]
    found = sum(int(n.get("status", {}).get("allocatable", {}).get(GPU, 0)) for n in nodes)
    if not found:
        fix = "install the NVIDIA GPU operator, or use engine.mode=cpu"
        return [failed("GPUs", f"no node of {len(nodes)} offers {GPU}", fix)]
    if found < plan.gpus:
        fix = "add nodes, or lower models.replicas; a node autoscaler may add them by itself"
        return [warning("GPUs", f"{found} in all, {plan.gpus} are planned", fix)]
    return [ok("GPUs", f"{found} in all, {plan.gpus} are planned")]


def check_storage(api: Api, plan: Plan) -> list[Finding]:
    """A claim without a class gets a volume."""
    classes = api.get("/apis/storage.k8s.io/v1/storageclasses")["items"]
    names = [item["metadata"]["name"] for item in classes]
    for item in classes:
        if (item["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true":
            return [ok("storage", f"default class {item['metadata']['name']}")]
    if not names:
        fix = "install a storage provisioner, or set redis.internal.persistence=false"
        return [failed("storage", "the cluster has no storage class", fix)]
    fix = f"set redis.internal.storageClassName, to {names[0]} for example"
    return [warning("storage", "no class is the default", fix)]


def check_quota(api: Api, plan: Plan) -> list[Finding]:
    """The namespace's quotas have room."""
    quotas = api.get(f"/api/v1/namespaces/{plan.namespace}/resourcequotas")["items"]
    findings = []
    for quota in quotas:
        status = quota.get("status", {})
        hard, used = status.get("hard", {}), status.get("used", {})
        full = sorted(name for name in hard if used.get(name) == hard[name] != "0")
        gpus = hard.get(f"requests.{GPU}")
        free = None if gpus is None else int(gpus) - int(used.get(f"requests.{GPU}", 0))
        name = quota["metadata"]["name"]
        if full:
            fix = f"kubectl -n {plan.namespace} describe quota {name}   # and have it raised"
            findings.append(failed("quota", f"{name} is used up: {', '.join(full)}", fix))
        elif plan.mode == "ray" and free is not None and free < plan.gpus:
            fix = f"have requests.{GPU} of the quota {name} raised, or lower models.replicas"
            findings.append(warning("quota", f"{name} leaves {free} GPUs of {plan.gpus}", fix))
    return findings or [ok("quota", f"{len(quotas)} quotas, none in the way")]


def check_pods(api: Api, plan: Plan) -> list[Finding]:
    """The pods of the release run; what keeps one from it is named."""
    pods = api.get(
        f"/api/v1/namespaces/{plan.namespace}/pods", labelSelector="app.kubernetes.io/part-of=pbkv"
    )["items"]
    if not pods:
        return [skipped("pods", f"none of the chart's in namespace {plan.namespace} yet")]
    findings = [found for pod in pods for found in _pod_problems(pod, plan)]
    return findings or [ok("pods", f"{len(pods)}, all scheduled and started")]


def check_ray_services(api: Api, plan: Plan) -> list[Finding]:
    """Every RayService of the release is ready."""
    try:
        services = api.get(f"/apis/ray.io/v1/namespaces/{plan.namespace}/rayservices")["items"]
    except NotFound:
        return []
    findings = []
    for service in services:
        name = service["metadata"]["name"]
        conditions = service.get("status", {}).get("conditions") or []
        ready = next((c for c in conditions if c["type"] == "Ready"), None)
        if ready is not None and ready["status"] == "True":
            findings.append(ok(f"RayService {name}", "ready"))
        else:
            why = (ready or {}).get("message") or "it has not said that it is ready"
            fix = f"kubectl -n {plan.namespace} describe rayservice {name}"
            findings.append(warning(f"RayService {name}", why, fix))
    return findings


_IMAGE_TROUBLE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


def _pod_problems(pod: Mapping[str, Any], plan: Plan) -> Iterable[Finding]:
    name, status = pod["metadata"]["name"], pod.get("status", {})
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            why = condition.get("message", "it fits on no node")
            fix = "compare engine.resources, nodeSelector and tolerations with the nodes"
            yield failed(f"pod {name}", f"cannot be scheduled: {why}", fix)
    containers = (status.get("initContainerStatuses") or []) + (
        status.get("containerStatuses") or []
    )
    for container in containers:
        waiting = container.get("state", {}).get("waiting", {})
        reason = waiting.get("reason", "")
        if reason in _IMAGE_TROUBLE:
            fix = "push the image, or set images.*.repository and imagePullSecrets"
            yield failed(f"pod {name}", f"{container['image']} cannot be pulled: {reason}", fix)
        elif reason == "CrashLoopBackOff":
            fix = f"kubectl -n {plan.namespace} logs {name} -c {container['name']} --previous"
            yield failed(f"pod {name}", f"{container['name']} keeps ending", fix)


def _allowed(api: Api, plan: Plan, group: str, resource: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {
            "resourceAttributes": {
                "namespace": plan.namespace,
                "verb": "create",
                "group": group,
                "resource": resource,
            }
        },
    }
    answer = api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer.get("status", {}).get("allowed"))


def _guarded(check: Callable[[Api, Plan], list[Finding]], api: Api, plan: Plan) -> list[Finding]:
    """A check that may not look is skipped, and says so."""
    try:
        return check(api, plan)
    except FleetError as problem:
        return [skipped(check.__name__.removeprefix("check_"), f"cannot be looked at: {problem}")]
