"""A closed loop of scripted workflows against one simulated engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pbkv.errors import UnknownPolicy
from pbkv.forecast import Predictor
from pbkv.policy import POLICIES, EvictionPolicy, make_policy
from pbkv.predict import make_predictor
from pbkv.settings import PolicySettings
from pbkv.sim.costs import GpuCosts
from pbkv.sim.engine import EngineLimits, SimulatedEngine
from pbkv.sim.forecasting import ScriptPredictor, SimulatedForecaster
from pbkv.sim.loop import LoopHooks, ServingLoop, SimReplica
from pbkv.sim.oracle import Foresight, OraclePolicy
from pbkv.sim.result import SimulationResult
from pbkv.sim.session import SessionPolicy
from pbkv.workload import ScriptedWorkflow

ORACLE_PREDICTOR = "oracle-predictor"
"""``pbkv`` with perfect forecasts, as a policy name."""

UNLIMITED = "unlimited"
"""Stock LRU with a cache that never fills, as a policy name: the ceiling of every policy."""

UNLIMITED_TOKENS = 1 << 40

_STANDS_FOR = {ORACLE_PREDICTOR: "pbkv", UNLIMITED: "lru"}


def policy_names() -> list[str]:
    """Every name that :class:`Simulation` takes as a policy."""
    return [*POLICIES, SessionPolicy.name, OraclePolicy.name, ORACLE_PREDICTOR, UNLIMITED]


@dataclass(frozen=True, slots=True)
class Simulation:
    """One run: who evicts, in which order requests wait, on what, and how many workflows at once.

    ``settings`` are those of the plug-in but for the policy. ``max_new_tokens`` is what clients
    allow a reply; None is the reply's own length, as a bench does. ``accuracy`` is of each step of
    the forecasts that ``oracle-predictor`` makes, perfect if empty; with it set, every policy that
    uses forecasts gets such ones instead of those of ``settings.predictor``.
    """

    policy: str
    queue: str
    concurrency: int
    limits: EngineLimits
    costs: GpuCosts
    settings: PolicySettings = field(default_factory=PolicySettings)
    max_new_tokens: int | None = None
    accuracy: tuple[float, ...] = ()
    seed: int = 0

    @property
    def foresees(self) -> bool:
        """Whether the policy knows the scripts themselves."""
        return self.policy == OraclePolicy.name


def simulate(
    simulation: Simulation,
    scripts: Sequence[ScriptedWorkflow],
    *,
    hooks: LoopHooks | None = None,
) -> SimulationResult:
    """Run ``scripts`` in order, ``concurrency`` at a time, on one engine, to their end.

    Raises :class:`SettingsError` for settings that cannot work.
    """
    foresight = Foresight(scripts, simulation.limits.page_size) if simulation.foresees else None
    replica = make_replica(simulation, scripts, foresight, name="engine")
    loop = ServingLoop(
        scripts,
        lambda run: replica,
        concurrency=simulation.concurrency,
        page_size=simulation.limits.page_size,
        max_new_tokens=simulation.max_new_tokens,
        hooks=hooks or LoopHooks(),
    )
    if foresight is not None:
        foresight.runs = loop.runs
        foresight.waiting = lambda: replica.engine.queue.requests
        foresight.running = lambda: replica.engine.in_service
    loop.run()
    return loop.measured.result(loop.now_s, [replica.engine])


def check(simulation: Simulation, scripts: Sequence[ScriptedWorkflow]) -> None:
    """Raise :class:`SettingsError` for what would stop :func:`simulate`, without running it."""
    replica = make_replica(simulation, scripts, Foresight((), 1), name="check")
    for script in scripts:
        for call, prompt_tokens in zip(script.calls, script.prompt_tokens(), strict=True):
            allowed = max(call.output_tokens, simulation.max_new_tokens or 0)
            replica.engine.check_fits(script.workflow_id, prompt_tokens, allowed)


def make_replica(
    simulation: Simulation,
    scripts: Sequence[ScriptedWorkflow],
    foresight: Foresight | None,
    *,
    name: str,
) -> SimReplica:
    """An engine with its policy and predictor."""
    policy = _policy(simulation, foresight)
    limits = simulation.limits
    if simulation.policy == UNLIMITED:
        limits = replace(limits, kv_tokens=UNLIMITED_TOKENS, host_ratio=0.0)
    engine = SimulatedEngine(policy, limits, simulation.costs, simulation.queue, policy.settings)
    replica = SimReplica(name, engine)
    predictor = _predictor(simulation, policy, scripts)
    if predictor is not None:
        noise = simulation.settings.forecast_noise
        replica.forecaster = SimulatedForecaster(policy, predictor, noise)
        policy.workflows.listener = replica.forecaster
    return replica


def _policy(simulation: Simulation, foresight: Foresight | None) -> EvictionPolicy:
    name = _STANDS_FOR.get(simulation.policy, simulation.policy)
    settings = replace(simulation.settings, policy=name)
    if name == SessionPolicy.name:
        return SessionPolicy(settings)
    if simulation.foresees:
        return OraclePolicy(settings, foresight or Foresight((), 1))
    if name not in POLICIES:
        raise UnknownPolicy(f"unknown policy {name!r}; choose one of: {', '.join(policy_names())}")
    return make_policy(settings)


def _predictor(
    simulation: Simulation, policy: EvictionPolicy, scripts: Sequence[ScriptedWorkflow]
) -> Predictor | None:
    if not policy.uses_forecasts:
        return None
    if simulation.policy == ORACLE_PREDICTOR or simulation.accuracy:
        return ScriptPredictor(
            scripts,
            steps=simulation.settings.lookahead_steps,
            accuracy=simulation.accuracy,
            seed=simulation.seed,
        )
    return make_predictor(policy.settings)
