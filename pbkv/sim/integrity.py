"""What must hold of a simulated tree after every step."""

from __future__ import annotations

from pbkv.policy import Tier
from pbkv.sim.node import TreeNode
from pbkv.sim.tree import SimulatedTree


def tree_problems(tree: SimulatedTree) -> list[str]:
    """Every broken invariant, one line each; empty for a sound tree. O(n)."""
    problems: list[str] = []
    device = host = evictable = count = 0
    candidates: dict[Tier, set[int]] = {tier: set() for tier in Tier}
    for node in tree.nodes():
        count += 1
        device += node.num_tokens * node.on_device
        host += node.num_tokens * node.on_host
        evictable += node.num_tokens * (node.on_device and not node.locks)
        problems += _node_problems(node, tree.page_size)
        if node.leaf_candidate:
            candidates[Tier.DEVICE].add(node.node_id)
        if node.host_candidate:
            candidates[Tier.HOST].add(node.node_id)
    for name, have, want in (
        ("device tokens", tree.stored_device, device),
        ("host tokens", tree.stored_host, host),
        ("evictable tokens", tree.evictable, evictable),
        ("nodes", tree.num_nodes, count),
        ("policy's device tokens", tree.policy.stored_tokens(Tier.DEVICE), device),
        ("policy's host tokens", tree.policy.stored_tokens(Tier.HOST), host),
    ):
        if have != want:
            problems.append(f"{name}: {have} noted, {want} found")
    if tree.free_tokens < 0:
        problems.append(f"device overfull by {-tree.free_tokens} tokens")
    if tree.stored_host > tree.host_tokens:
        problems.append(f"host overfull by {tree.stored_host - tree.host_tokens} tokens")
    for tier, wanted in candidates.items():
        known = {node.node_id for node in tree.policy.candidates(tier)}
        if known != wanted:
            problems.append(f"{tier} candidates differ: {sorted(known ^ wanted)[:5]}")
    return problems


def _node_problems(node: TreeNode, page_size: int) -> list[str]:
    problems = []
    parent = node.parent
    name = f"node {node.node_id}"
    if parent is None or parent.children.get(node.ids[0]) is not node:
        return [f"{name} is not its parent's child"]
    children = node.children.values()
    if node.start != parent.end or node.num_tokens != len(node.ids) * page_size:
        problems.append(f"{name} does not follow its parent")
    if node.on_device and not parent.on_device:
        problems.append(f"{name} is on the device, its parent is not")
    if node.on_host and not parent.on_host:
        problems.append(f"{name} is on the host, its parent is not")
    if not (node.on_device or node.on_host):
        problems.append(f"{name} is nowhere")
    if node.locks < max((child.locks for child in children), default=0):
        problems.append(f"{name} has fewer locks than a child")
    if node.locks and not node.on_device:
        problems.append(f"{name} is locked and not on the device")
    if node.device_children != sum(child.on_device for child in children):
        problems.append(f"{name} miscounts its children on the device")
    if node.host_children != sum(child.on_host for child in children):
        problems.append(f"{name} miscounts its children on the host")
    if node.leaf_candidate != (node.on_device and not node.locks and not node.device_children):
        problems.append(f"{name} is wrongly a device candidate or not")
    if node.host_candidate != (node.on_host and not node.on_device and not node.host_children):
        problems.append(f"{name} is wrongly a host candidate or not")
    if node.locked != bool(node.locks):
        problems.append(f"{name} shows a wrong lock")
    return problems
