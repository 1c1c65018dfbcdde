"""Which nodes and pods are going, and which replicas with them. Pure functions of what was seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

GOING_TAINTS = frozenset(
    (
        "ToBeDeletedByClusterAutoscaler",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/rebalance-recommendation",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/spot-itn",
        "cloud.google.com/impending-node-termination",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.kubernetes.io/out-of-service",
        "remediation.medik8s.io/fencing",
    )
)
"""Taints by which clouds and operators announce the end of a node: spot notices among them."""

GOING_CONDITIONS = frozenset(
    ("PreemptScheduled", "TerminateScheduled", "RebootScheduled", "RedeployScheduled")
)
"""Conditions of the node problem detector for scheduled events of a virtual machine."""


@dataclass(frozen=True, slots=True)
class Node:
    """``going`` is why it is about to go, empty if it is not."""

    name: str
    going: str

    @classmethod
    def read(cls, item: Mapping[str, Any], extra_taints: Collection[str] = ()) -> Node:
        """From the API's JSON. ``extra_taints`` are further taint keys that announce an end."""
        name, spec = item["metadata"]["name"], item.get("spec", {})
        for taint in spec.get("taints") or ():
            if taint["key"] in GOING_TAINTS or taint["key"] in extra_taints:
                return cls(name, f"node {name} has the taint {taint['key']}")
        for condition in item.get("status", {}).get("conditions") or ():
            if condition["type"] in GOING_CONDITIONS and condition["status"] == "True":
                return cls(name, f"node {name} says {condition['type']}")
        if spec.get("unschedulable"):
            return cls(name, f"node {name} is cordoned")
        return cls(name, "")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with engines. ``deletion_cost`` is what its annotation says, None without one."""

    name: str
    address: str
    node: str
    deleting: bool
    ray_service: str
    deletion_cost: int | None

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Pod:
        """From the API's JSON."""
        metadata, status = item["metadata"], item.get("status", {})
        cost = (metadata.get("annotations") or {}).get(DELETION_COST, "")
        labels = metadata.get("labels") or {}
        return cls(
            name=metadata["name"],
            address=status.get("podIP", ""),
            node=item.get("spec", {}).get("nodeName", ""),
            deleting="deletionTimestamp" in metadata,
            ray_service=labels.get(RAY_SERVICE, ""),
            deletion_cost=int(cost) if cost.lstrip("-").isdigit() else None,
        )


RAY_SERVICE = "pbkv.io/ray-service"
"""Label by which the chart says to which RayService a worker pod belongs."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Of the pods of a ReplicaSet, those with the lowest cost go first."""


@dataclass(frozen=True, slots=True)
class PlacedReplica:
    """A replica's entry in Redis: where it listens, and how many workflows are pinned to it."""

    replica_id: str
    address: str
    workflows: int


def wanted_drains(
    nodes: Iterable[Node], pods: Iterable[Pod], replicas: Iterable[PlacedReplica]
) -> dict[str, str]:
    """Replica -> why it is to drain, for those whose pod or node is going."""
    going = {node.name: node.going for node in nodes if node.going}
    by_address = {pod.address: pod for pod in pods if pod.address}
    wanted = {}
    for replica in replicas:
        pod = by_address.get(replica.address)
        if pod is None:
            continue
        if pod.deleting:
            wanted[replica.replica_id] = f"pod {pod.name} is being deleted"
        elif pod.node in going:
            wanted[replica.replica_id] = going[pod.node]
    return wanted


def wanted_costs(pods: Iterable[Pod], replicas: Iterable[PlacedReplica]) -> dict[str, int]:
    """Pod -> its new deletion cost, for those whose cost is another: the workflows it would lose.

    Only where that decides anything: Ray's worker pods belong to no ReplicaSet.
    """
    live: dict[str, int] = {}
    for replica in replicas:
        live[replica.address] = live.get(replica.address, 0) + replica.workflows
    return {
        pod.name: live.get(pod.address, 0)
        for pod in pods
        if not pod.ray_service
        and not pod.deleting
        and pod.address
        and pod.deletion_cost != live.get(pod.address, 0)
    }
