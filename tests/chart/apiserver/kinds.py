"""The kinds the server knows, and how it announces them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCES = ("status", "scale")

# apiVersion: plural Kind short, ...; a star marks what is in no namespace.
_BUILT_IN = """
v1: namespaces* Namespace ns, nodes* Node no, pods Pod po, services Service svc,
    secrets Secret -, configmaps ConfigMap cm, serviceaccounts ServiceAccount sa,
    persistentvolumeclaims PersistentVolumeClaim pvc, events Event ev,
    resourcequotas ResourceQuota quota
apps/v1: deployments Deployment deploy, statefulsets StatefulSet sts, replicasets ReplicaSet rs
batch/v1: jobs Job -, cronjobs CronJob cj
policy/v1: poddisruptionbudgets PodDisruptionBudget pdb
autoscaling/v2: horizontalpodautoscalers HorizontalPodAutoscaler hpa
networking.k8s.io/v1: networkpolicies NetworkPolicy netpol, ingresses Ingress ing
rbac.authorization.k8s.io/v1: roles Role -, rolebindings RoleBinding -,
    clusterroles* ClusterRole -, clusterrolebindings* ClusterRoleBinding -
coordination.k8s.io/v1: leases Lease -
storage.k8s.io/v1: storageclasses* StorageClass sc
authorization.k8s.io/v1: selfsubjectaccessreviews* SelfSubjectAccessReview -
apiextensions.k8s.io/v1: customresourcedefinitions* CustomResourceDefinition crd
"""


@dataclass(frozen=True)
class Kind:
    """One resource of one API version."""

    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: str = ""

    def announced(self) -> list[dict[str, Any]]:
        """Its lines of the API's resource list."""
        base = {"kind": self.kind, "namespaced": self.namespaced, "singularName": self.kind.lower()}
        short = [self.short] if self.short else []
        whole = {**base, "name": self.plural, "verbs": _VERBS, "shortNames": short}
        parts = [
            {**base, "name": f"{self.plural}/{part}", "verbs": ["get", "patch", "update"]}
            for part in _SUBRESOURCES
        ]
        return [whole, *parts]


def built_in() -> Iterable[Kind]:
    """The kinds of the table above."""
    for line in _BUILT_IN.replace(",\n", ",").strip().splitlines():
        version, _, resources = line.partition(": ")
        for resource in resources.split(","):
            plural, kind, short = resource.split()
            namespaced = not plural.endswith("*")
            yield Kind(version, plural.strip("*"), kind, namespaced, short.strip("-"))


def of_definition(definition: Mapping[str, Any]) -> Iterable[Kind]:
    """The kinds of a CustomResourceDefinition."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        short = (names.get("shortNames") or [""])[0]
        namespaced = spec["scope"] == "Namespaced"
        name = f"{spec['group']}/{version['name']}"
        yield Kind(name, names["plural"], names["kind"], namespaced, short)


class Discovery:
    """The kinds by API version, and the documents by which clients learn of them."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: dict[str, dict[str, Kind]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        self._kinds.setdefault(kind.version, {})[kind.plural] = kind

    def find(self, version: str, plural: str) -> Kind | None:
        return self._kinds.get(version, {}).get(plural)

    def document(self, path: str) -> dict[str, Any] | None:
        """The answer to a discovery request, None if ``path`` is none."""
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            groups = sorted({version.split("/")[0] for version in self._kinds if "/" in version})
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [self._group(group) for group in groups],
            }
        if path == "/openapi/v3":
            roots = {self._root(version): version for version in self._kinds}
            return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}
        if path.startswith("/openapi/v3/"):
            return self._openapi(path.removeprefix("/openapi/v3/"))
        version = path.removeprefix("/apis/").removeprefix("/api/")
        if version in self._kinds:
            resources = [line for k in self._kinds[version].values() for line in k.announced()]
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": version,
                "resources": resources,
            }
        return None

    def _root(self, version: str) -> str:
        return f"{'apis' if '/' in version else 'api'}/{version}"

    def _group(self, group: str) -> dict[str, Any]:
        versions = [
            {"groupVersion": version, "version": version.split("/")[1]}
            for version in self._kinds
            if version.split("/")[0] == group and "/" in version
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _openapi(self, root: str) -> dict[str, Any] | None:
        """Just enough for clients to see that this server validates fields itself."""
        version = root.removeprefix("apis/").removeprefix("api/")
        paths = {}
        for kind in self._kinds.get(version, {}).values():
            group, _, number = version.rpartition("/")
            space = "namespaces/{namespace}/" if kind.namespaced else ""
            parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
            paths[f"/{root}/{space}{kind.plural}/{{name}}"] = {
                "patch": {
                    "parameters": [parameter],
                    "responses": {"200": {"description": "OK"}},
                    "x-kubernetes-group-version-kind": {
                        "group": group,
                        "version": number,
                        "kind": kind.kind,
                    },
                }
            }
        info = {"title": "stand-in", "version": "v1"}
        return {"openapi": "3.0.0", "info": info, "paths": paths} if paths else None
