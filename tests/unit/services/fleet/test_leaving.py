"""Which nodes and pods are going, as pure functions of what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from services.fleet.leaving import (
    DELETION_COST,
    Node,
    PlacedReplica,
    Pod,
    wanted_costs,
    wanted_drains,
)
from tests.unit.services.fleet import objects

HERE = PlacedReplica("r1", "10.0.0.1", workflows=3)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (objects.node(), ""),
        (objects.node(cordoned=True), "node n1 is cordoned"),
        (objects.node(taints=("nvidia.com/gpu",)), ""),
        (
            objects.node(taints=("aws-node-termination-handler/spot-itn",), cordoned=True),
            "node n1 has the taint aws-node-termination-handler/spot-itn",
        ),
        (objects.node(taints=("ours/going",)), "node n1 has the taint ours/going"),
        (
            {
                "metadata": {"name": "n1"},
                "status": {"conditions": [{"type": "PreemptScheduled", "status": "True"}]},
            },
            "node n1 says PreemptScheduled",
        ),
        (
            {
                "metadata": {"name": "n1"},
                "status": {"conditions": [{"type": "PreemptScheduled", "status": "False"}]},
            },
            "",
        ),
    ],
)
def test_why_a_node_is_going(item: Any, reason: str) -> None:
    assert Node.read(item, extra_taints=("ours/going",)).going == reason


@pytest.mark.parametrize(
    ("node", "pod", "wanted"),
    [
        (objects.node(), objects.pod(), {}),
        (objects.node(cordoned=True), objects.pod(), {"r1": "node n1 is cordoned"}),
        (objects.node("n2", cordoned=True), objects.pod(), {}),
        (objects.node(), objects.pod(deleting=True), {"r1": "pod engine-1 is being deleted"}),
        (objects.node(cordoned=True), objects.pod(address="10.0.0.9"), {}),
        (objects.node(cordoned=True), objects.pod(address=""), {}),
    ],
)
def test_which_replicas_are_to_drain(node: Any, pod: Any, wanted: dict[str, str]) -> None:
    assert wanted_drains([Node.read(node)], [Pod.read(pod)], [HERE]) == wanted


def test_pods_are_priced_by_the_workflows_they_would_lose() -> None:
    second = PlacedReplica("r2", "10.0.0.1", workflows=2)
    idle = Pod.read(objects.pod("engine-2", "10.0.0.2"))
    busy = Pod.read(objects.pod())
    assert wanted_costs([busy, idle], [HERE, second]) == {"engine-1": 5, "engine-2": 0}


def test_a_price_that_stands_is_not_written_again() -> None:
    item = objects.pod()
    item["metadata"]["annotations"] = {DELETION_COST: "3"}
    assert wanted_costs([Pod.read(item)], [HERE]) == {}


@pytest.mark.parametrize(
    "pod", [objects.pod(ray_service="s"), objects.pod(deleting=True), objects.pod(address="")]
)
def test_pods_whose_price_decides_nothing_get_none(pod: Any) -> None:
    assert wanted_costs([Pod.read(pod)], [HERE]) == {}


@pytest.mark.parametrize("text", ["", "many", "1.5"])
def test_a_price_that_is_no_number_is_none(text: str) -> None:
    item = objects.pod()
    item["metadata"]["annotations"] = {DELETION_COST: text}
    assert Pod.read(item).deletion_cost is None
