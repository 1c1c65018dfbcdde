"""Small simulated scenes that several tests share."""

from __future__ import annotations

from pbkv.policy import make_policy
from pbkv.settings import PolicySettings
from pbkv.sim import EngineLimits, GpuCosts, Simulation
from pbkv.sim.engine import SimulatedEngine
from pbkv.sim.integrity import tree_problems
from pbkv.sim.tree import SimulatedTree
from pbkv.workload import ScriptedCall, ScriptedWorkflow, Segment, make_workflows
from services.sim.graph import default_graph

PAGE = 4

COSTS = GpuCosts(
    model="test",
    gpu="test",
    ranks=1,
    prefill_tokens_per_s=1000.0,
    prefill_overhead_s=0.5,
    decode_base_s=0.25,
    decode_s_per_sequence=0.0,
    decode_s_per_kv_token=0.0,
    load_tokens_per_s=4000.0,
    kv_tokens=1000,
    source="a test's round numbers",
)


def tree(
    policy: str = "lru", *, device_tokens: int = 400, host_tokens: int = 0, unit: str = "node"
) -> SimulatedTree:
    return SimulatedTree(
        make_policy(PolicySettings(policy=policy, eviction_unit=unit)),
        page_size=PAGE,
        device_tokens=device_tokens,
        host_tokens=host_tokens,
    )


def workflow(name: str, *calls: tuple[int, int], pause_s: float = 0.0) -> ScriptedWorkflow:
    """One agent that reads ever more: (tokens added, tokens of the reply) of each call."""
    return ScriptedWorkflow(
        name,
        {"c": ()},
        tuple(
            ScriptedCall("A", "c", (Segment(f"{name}/{n}", added),), (), reply, pause_s=pause_s)
            for n, (added, reply) in enumerate(calls)
        ),
    )


def hover(count: int = 40, seed: int = 3) -> list[ScriptedWorkflow]:
    return make_workflows("hover", count, seed=seed, scale=0.3)


def pressed(policy: str, queue: str = "fcfs", **changes: object) -> Simulation:
    """A HoVer-like load under memory pressure."""
    settings = PolicySettings(agent_graph=default_graph(hover()))
    values: dict[str, object] = {
        "policy": policy,
        "queue": queue,
        "concurrency": 12,
        "limits": EngineLimits(kv_tokens=2600, max_running_requests=3),
        "costs": COSTS,
        "settings": settings,
    }
    return Simulation(**(values | changes))  # type: ignore[arg-type]


def assert_sound(engine: SimulatedEngine) -> None:
    """What the tree and the engine's accounts must agree on, between steps."""
    assert tree_problems(engine.tree) == []
    chunked = [] if engine.chunked is None else [engine.chunked]
    held = sum(request.private_pages for request in (*engine.running, *chunked))
    assert engine.tree.private == held * engine.limits.page_size
