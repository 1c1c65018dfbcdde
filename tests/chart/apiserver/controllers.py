"""Controllers for whom everything succeeds at once: what ``helm --wait`` and ``kubectl`` look at.

Nothing is scheduled or run: pods are Running without a process, hooks succeed untried.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

from tests.chart.apiserver.kinds import Discovery
from tests.chart.apiserver.store import Item, Key, Store

_HOOK = "helm.sh/hook"


class Controllers:
    """Reacts to every change of the store."""

    def __init__(self, store: Store, discovery: Discovery) -> None:
        self._store = store
        self._discovery = discovery
        store.changed = self.react

    def react(self, key: Key, item: Item) -> None:
        if self._store.get(key) is None:
            return
        if key.kind.kind == "Deployment":
            self._replica_set(key, item)
        status = _status(item)
        if status and item.get("status") != status:
            self._store.put(key, {**item, "status": status})

    def _replica_set(self, key: Key, item: Item) -> None:
        template = copy.deepcopy(item["spec"]["template"])
        digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:8]
        template["metadata"].setdefault("labels", {})["pod-template-hash"] = digest
        kind = self._kind("apps/v1", "replicasets")
        mine = Key(kind, key.namespace, f"{key.name}-{digest}")
        for other, found in self._store.list(kind, key.namespace):
            if other != mine and _owned_by(found, item):
                self._store.remove(other)
        count = item["spec"].get("replicas", 1)
        labels = template["metadata"]["labels"]
        replica_set = self._store.put(
            mine,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": mine.name,
                    "namespace": key.namespace,
                    "labels": labels,
                    "ownerReferences": [_owner(item)],
                },
                "spec": {
                    "replicas": count,
                    "selector": {"matchLabels": labels},
                    "template": template,
                },
                "status": {"replicas": count, "readyReplicas": count, "observedGeneration": 1},
            },
        )
        self._pods(mine, replica_set)

    def _pods(self, key: Key, replica_set: Item) -> None:
        kind = self._kind("v1", "pods")
        wanted = {f"{key.name}-{i}" for i in range(replica_set["spec"]["replicas"])}
        present = {
            other.name: other
            for other, found in self._store.list(kind, key.namespace)
            if _owned_by(found, replica_set)
        }
        for name in present.keys() - wanted:
            self._store.remove(present[name])
        template = replica_set["spec"]["template"]
        for name in sorted(wanted - present.keys()):
            metadata = {
                "name": name,
                "namespace": key.namespace,
                "labels": template["metadata"]["labels"],
                "ownerReferences": [_owner(replica_set)],
            }
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            self._store.put(Key(kind, key.namespace, name), {**pod, "spec": template["spec"]})

    def _kind(self, version: str, plural: str) -> Any:
        return self._discovery.find(version, plural)


def _status(item: Item) -> dict[str, Any] | None:
    generation = item["metadata"].get("generation", 1)
    match item["kind"]:
        case "Deployment" | "StatefulSet":
            count = item["spec"].get("replicas", 1)
            return {
                "observedGeneration": generation,
                "replicas": count,
                "readyReplicas": count,
                "updatedReplicas": count,
                "availableReplicas": count,
                "currentReplicas": count,
                "conditions": [
                    {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
                ],
            }
        case "Pod":
            if "status" in item:
                return None
            hook = _HOOK in item["metadata"].get("annotations", {})
            ready = [{"type": "Ready", "status": "True"}]
            return {"phase": "Succeeded" if hook else "Running", "conditions": ready}
        case "Job":
            return {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
        case "PersistentVolumeClaim":
            return {"phase": "Bound"}
        case "Namespace":
            return {"phase": "Active"}
        case "CustomResourceDefinition":
            names = item["spec"]["names"]
            conditions = [
                {"type": name, "status": "True"} for name in ("Established", "NamesAccepted")
            ]
            return {"conditions": conditions, "acceptedNames": names, "storedVersions": ["v1"]}
    return None


def _owner(item: Item) -> dict[str, Any]:
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": True,
    }


def _owned_by(item: Item, owner: Item) -> bool:
    owners = item["metadata"].get("ownerReferences", ())
    return any(entry["uid"] == owner["metadata"]["uid"] for entry in owners)
