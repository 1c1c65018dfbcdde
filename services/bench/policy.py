"""``pbkv bench policy``: what the policy costs, beside stock SGLang's tree cores in one run.

One unit of each operation, as in Table 4 of the paper:

* ``evict`` (EvictDecision): the choice of all victims of one eviction, 32 nodes for 4,096 tokens at
  128 tokens a node, right after a forecast came in. What the tree does with a victim is not in it;
  ``evict-and-free`` is the whole call.
* ``score`` (ScoreUpdate): one node's place in the order brought up to date after its workflow
  called an agent and got a new forecast. Nodes that were accessed alike share an entry of the heap,
  so this is the cost of that call and forecast over the nodes that they moved; ``score-entry`` is
  the same over the entries, ``apply`` the whole of it.
* ``prefetch`` (PrefetchDecision): one plan over all leaves of the tree, on the host, within 4,096
  tokens.
* ``predict``: one forecast of 1,024 workflows in one batch by the predictor that the engine serves
  with. The paper's PredictInfer is a forward pass of another batch, on a GPU.
* ``memory``: what the policy holds, in bytes per node.
"""

from __future__ import annotations

import gc
import importlib.util
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pbkv.events import WorkflowEvent
from pbkv.invocation import Invocation
from pbkv.policy import PrefetchBudget, Tier, make_policy
from pbkv.settings import PolicySettings
from services.bench.drive import BenchError
from services.bench.local_cache import TreeCore, rust_core_problem
from services.bench.predict_time import PREFIXES, measure_predict
from services.bench.synthetic_tree import AGENTS, PAGE_SIZE, WORKFLOWS, SyntheticTree

_REFRESHES = 2
"""How often an agent call refreshes a score: its old forecast goes, a new one comes."""

Progress = Callable[[str], None]
Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class PolicyBench:
    """What to measure. ``evict_tokens`` is what one eviction frees and one prefetch may load."""

    nodes: tuple[int, ...]
    repeats: int
    node_tokens: int = 128
    evict_tokens: int = 4096
    policy: str = "pbkv"
    seed: int = 1

    def __post_init__(self) -> None:
        if self.node_tokens % PAGE_SIZE:
            raise BenchError(f"--node-tokens must be a multiple of the page size, {PAGE_SIZE}")
        make_policy(PolicySettings(policy=self.policy))
        fewest = len(AGENTS) + 2 * self.evict_tokens // self.node_tokens
        if min(self.nodes, default=0) < fewest:
            raise BenchError(f"--nodes must be at least {fewest}, so that an eviction leaves some")


def parse_sizes(text: str) -> tuple[int, ...]:
    """Tree sizes from a comma list. Raises :class:`BenchError` unless all are whole numbers."""
    try:
        return tuple(sorted({int(size) for size in text.split(",")}))
    except ValueError:
        raise BenchError(f"--nodes must be a comma list of whole numbers, got {text!r}") from None


@dataclass(slots=True)
class Samples:
    """Durations of one operation, in nanoseconds."""

    nanoseconds: list[float] = field(default_factory=list)

    def row(self, op: str, core: TreeCore, nodes: int, **extra: Any) -> dict[str, Any]:
        ordered = sorted(self.nanoseconds)
        return {
            "op": op,
            "implementation": core.value,
            "nodes": nodes,
            "mean_us": statistics.mean(ordered) / 1000,
            "p99_us": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] / 1000,
            "samples": len(ordered),
            **extra,
        }


def run_policy_bench(
    bench: PolicyBench, say: Progress, clock: Clock = time.thread_time_ns
) -> list[dict[str, Any]]:
    """All rows. The clock is the CPU time of this thread: nothing here waits, so on an idle core
    it is the wall clock, and what else the machine does stays out of the figures."""
    if importlib.util.find_spec("sglang") is None:
        raise BenchError("bench policy needs the engine; install it with make install")
    import torch

    # As in the engine; and work of other threads would not show on this one's clock.
    torch.set_num_threads(1)
    cores = [TreeCore.PBKV, TreeCore.STOCK_PYTHON]
    problem = rust_core_problem()
    if problem is None:
        cores.append(TreeCore.STOCK_RUST)
    else:
        say(f"stock-rust is left out, it cannot be loaded here: {problem}")
    rows: list[dict[str, Any]] = []
    for nodes in bench.nodes:
        rows += measure_size(bench, nodes, cores, say, clock)
    say(f"predictor: {bench.repeats} batches of {PREFIXES:,} workflows")
    settings = PolicySettings(policy=bench.policy)
    nanoseconds = measure_predict(settings, bench.repeats, bench.seed, clock)
    if nanoseconds is not None:
        samples = Samples([float(taken) for taken in nanoseconds])
        rows.append(samples.row("predict", TreeCore.PBKV, 0, prefixes=PREFIXES))
    return rows


def measure_size(
    bench: PolicyBench, nodes: int, cores: Sequence[TreeCore], say: Progress, clock: Clock
) -> list[dict[str, Any]]:
    """Rows of one tree size; the implementations take turns at every repeat."""
    trees = []
    for core in cores:
        say(f"{nodes:,} nodes: building the tree of {core}")
        settings = PolicySettings(policy=bench.policy)
        trees.append(SyntheticTree(core, nodes, bench.node_tokens, settings, bench.seed))
    decisions = {tree.core: DecisionClock(tree.cache.tree_core, clock) for tree in trees}
    evict = {core: Samples() for core in cores}
    evict_and_free = {core: Samples() for core in cores}
    apply, score, score_entry = Samples(), Samples(), Samples()
    # As the engine does when it is warm: what was built is no work for the collector any more.
    gc.collect()
    gc.freeze()
    try:
        say(f"{nodes:,} nodes: {bench.repeats} repeats")
        for repeat in range(-_warm_up(bench), bench.repeats):
            turn = repeat % len(trees)
            for tree in trees[turn:] + trees[:turn]:
                if tree.policy is not None:
                    done = refresh(tree, WORKFLOWS[repeat % len(WORKFLOWS)], clock)
                start = clock()
                freed = tree.evict(bench.evict_tokens).num_tokens_evicted
                whole_ns = clock() - start
                decision_ns = decisions[tree.core].take()
                tree.add_leaves(freed // bench.node_tokens)
                if repeat < 0:
                    continue
                evict[tree.core].nanoseconds.append(decision_ns)
                evict_and_free[tree.core].nanoseconds.append(whole_ns)
                if tree.policy is not None:
                    apply.nanoseconds.append(done.nanoseconds)
                    score.nanoseconds.append(done.nanoseconds / (_REFRESHES * done.nodes))
                    score_entry.nanoseconds.append(done.nanoseconds / (_REFRESHES * done.entries))
        rows = [evict[core].row("evict", core, nodes) for core in cores]
        # The whole call: what the order costs where nodes become candidates, and freeing itself.
        rows += [evict_and_free[core].row("evict-and-free", core, nodes) for core in cores]
        rows.append(score.row("score", TreeCore.PBKV, nodes))
        rows.append(score_entry.row("score-entry", TreeCore.PBKV, nodes))
        rows.append(apply.row("apply", TreeCore.PBKV, nodes))
        prefetch = measure_prefetch(bench, trees[0], clock)
        if prefetch is not None:
            rows.append(prefetch.row("prefetch", TreeCore.PBKV, nodes))
        rows.append(memory_row(bench, trees[0]))
    finally:
        gc.unfreeze()
    return rows


def _warm_up(bench: PolicyBench) -> int:
    return max(1, bench.repeats // 10)


def clock_cost_ns(clock: Clock) -> float:
    """What two readings one after the other differ by: part of every duration."""
    return statistics.median(-(clock() - clock()) for _ in range(1001))


class DecisionClock:
    """Times the choice of victims alone, without freeing them, through the one interface that all
    tree cores share: the walk's start, its steps and its end. The cost of the many readings of the
    clock is taken off."""

    def __init__(self, tree_core: Any, clock: Clock) -> None:
        self._clock = clock
        self._cost_ns = clock_cost_ns(clock)
        self._taken_ns = 0.0
        for name in ("evict_device_start", "evict_device_next_node", "evict_device_end"):
            setattr(tree_core, name, self._timed(getattr(tree_core, name)))

    def take(self) -> float:
        """Nanoseconds since the last call of this."""
        taken, self._taken_ns = self._taken_ns, 0.0
        return taken

    def _timed(self, step: Callable[..., Any]) -> Callable[..., Any]:
        clock = self._clock

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = clock()
            try:
                return step(*args, **kwargs)
            finally:
                self._taken_ns += max(0.0, clock() - start - self._cost_ns)

        return timed


@dataclass(frozen=True, slots=True)
class Refresh:
    """How long one took, and what it moved."""

    nanoseconds: int
    nodes: int
    entries: int


def refresh(tree: SyntheticTree, workflow: str, clock: Clock) -> Refresh:
    """One agent call of a workflow: its old forecast goes, a new one is applied."""
    assert tree.policy is not None
    forecast = tree.forecast(workflow)
    nodes = tree.policy.nodes_of(workflow)
    entries = len({node.tag for node in nodes})
    start = clock()
    tree.invoke(workflow, AGENTS[0])
    tree.policy.on_forecast(forecast)
    return Refresh(clock() - start, len(nodes), entries)


def measure_prefetch(bench: PolicyBench, tree: SyntheticTree, clock: Clock) -> Samples | None:
    """The decision what to load, with every leaf of the tree on the host only. Last of all: the
    tree is not what its policy believes any more. None for a policy that does not prefetch."""
    policy: Any = tree.policy
    if not hasattr(policy, "prefetcher"):
        return None
    for node in policy.candidates(Tier.DEVICE):
        policy.drop_candidate(node, Tier.DEVICE)
        policy.on_store(node, Tier.HOST)
        policy.on_release(node, Tier.DEVICE)
    budget = PrefetchBudget(
        free_tokens=bench.evict_tokens, retired_tokens=0, bandwidth_tokens=bench.evict_tokens
    )
    samples = Samples()
    for repeat in range(-_warm_up(bench), bench.repeats):
        refresh(tree, WORKFLOWS[repeat % len(WORKFLOWS)], clock)
        start = clock()
        planned = policy.prefetcher.plan(budget)
        taken = clock() - start
        if sum(node.num_tokens for node in planned) > bench.evict_tokens:
            raise BenchError("a prefetch plan exceeded its budget")
        if repeat >= 0:
            samples.nanoseconds.append(taken)
    return samples


def memory_row(bench: PolicyBench, tree: SyntheticTree) -> dict[str, Any]:
    """Bytes that a policy allocates per node: the same tree reported to a second, fresh policy."""
    from pbkv.sglang.views import NodeViews

    core = tree.cache.tree_core
    nodes = [node for node in core._collect_all_nodes() if node is not core.root_node]
    policy = make_policy(PolicySettings(policy=bench.policy))
    views = NodeViews()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number, node in enumerate(nodes):
            view = views.of(node)
            policy.on_store(view, Tier.DEVICE)
            policy.add_candidate(view, Tier.DEVICE)
            workflow = WORKFLOWS[number % len(WORKFLOWS)]
            agent = AGENTS[number // len(WORKFLOWS) % len(AGENTS)]
            invocation = Invocation(workflow, agent, at_s=0.0, seq=number)
            policy.on_event(WorkflowEvent.invoke(invocation))
            policy.on_access(view, invocation)
        for workflow in WORKFLOWS:
            policy.on_forecast(tree.forecast(workflow))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return {
        "op": "memory",
        "implementation": TreeCore.PBKV.value,
        "nodes": len(nodes),
        "bytes_per_node": (after - before) / len(nodes),
    }
