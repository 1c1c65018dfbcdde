"""Nodes, pods and replicas for the tests of this folder."""

from __future__ import annotations

from typing import Any

from redis import Redis

NAMESPACE = "pbkv"


def node(name: str = "n1", *, taints: tuple[str, ...] = (), cordoned: bool = False) -> Any:
    listed = [{"key": key, "effect": "NoSchedule"} for key in taints]
    spec: dict[str, Any] = {"taints": listed} if listed else {}
    if cordoned:
        spec["unschedulable"] = True
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


def pod(
    name: str = "engine-1",
    address: str = "10.0.0.1",
    *,
    on: str = "n1",
    deleting: bool = False,
    ray_service: str = "",
    component: str = "engine",
) -> Any:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/component": component},
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    if ray_service:
        metadata["labels"]["pbkv.io/ray-service"] = ray_service
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": on, "containers": [{"name": "engine", "image": "i"}]},
        "status": {"phase": "Running", "podIP": address},
    }


def register(redis: Redis, replica_id: str, address: str, workflows: int = 0) -> None:
    """What a replica's heartbeat writes, without its time to live."""
    entry = {
        "url": f"http://{address}:15000",
        "state": "ready",
        "model": "tiny",
        "workflows": str(workflows),
    }
    redis.hset(f"pbkv:replica:{replica_id}", mapping=entry)  # type: ignore[arg-type]
