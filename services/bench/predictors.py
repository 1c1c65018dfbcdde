"""Who forecasts in a measured engine: predictors that the product has, and two that need a bench.

``trained`` is the Markov model after workflows of the same kind, other than those it will meet;
``oracle`` knows the scripts. Between them and ``markov``, which begins untrained, lies what the
quality of forecasts is worth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pbkv.predict import NO_PREDICTOR, MarkovPredictor
from pbkv.settings import PolicySettings
from pbkv.workload import ScriptedWorkflow, make_workflows
from services.bench.oracle import PREDICTOR as ORACLE_PREDICTOR
from services.bench.oracle import write_scripts

MARKOV = "markov"
TRAINED = "trained"
ORACLE = "oracle"
PREDICTOR_NAMES = (NO_PREDICTOR, MARKOV, TRAINED, ORACLE)

_RECORDED = ("swebench",)
TRAINING_WORKFLOWS = 400
_TRAINING_SEED = 1_000_003
"""Added to the seed of the benchmark, whose repeats count up from it."""


class PredictorFiles:
    """Writes what a predictor starts from, when a variant first needs it."""

    def __init__(
        self,
        folder: Path,
        workload: str,
        scripts: list[ScriptedWorkflow],
        *,
        scale: float,
        seed: int,
        data_dir: Path | None,
    ) -> None:
        self._folder = folder
        self._workload = workload
        self._scripts = scripts
        self._scale = scale
        self._seed = seed
        self._data_dir = data_dir

    def resolve(self, settings: PolicySettings) -> PolicySettings:
        """``settings`` for an engine, which knows neither ``trained`` nor ``oracle``."""
        if settings.predictor == TRAINED:
            # Written for as many steps as are asked for: a checkpoint forecasts no more.
            path = self._folder / f"markov-{settings.lookahead_steps}.json"
            if not path.exists():
                training = training_workflows(
                    self._workload,
                    self._scripts,
                    scale=self._scale,
                    seed=self._seed,
                    data_dir=self._data_dir,
                )
                train_markov(training, steps=settings.lookahead_steps).save(path)
            return replace(settings, predictor=MARKOV, predictor_checkpoint=str(path))
        if settings.predictor == ORACLE:
            path = self._folder / "scripts.json"
            if not path.exists():
                write_scripts(path, {w.workflow_id: _agents(w) for w in self._scripts})
            return replace(settings, predictor=ORACLE_PREDICTOR, predictor_checkpoint=str(path))
        return settings


def training_workflows(
    workload: str,
    measured: Iterable[ScriptedWorkflow],
    *,
    scale: float,
    seed: int,
    data_dir: Path | None,
) -> list[ScriptedWorkflow]:
    """Workflows of another seed.

    A workload of recorded traces draws some of the same ones under another seed: of those,
    whatever has the agents of a ``measured`` workflow in the same order is left out.
    """
    drawn = make_workflows(
        workload, TRAINING_WORKFLOWS, seed=seed + _TRAINING_SEED, scale=scale, data_dir=data_dir
    )
    if workload not in _RECORDED:
        return drawn
    known = {_agents(workflow) for workflow in measured}
    return [workflow for workflow in drawn if _agents(workflow) not in known]


def train_markov(workflows: Iterable[ScriptedWorkflow], *, steps: int) -> MarkovPredictor:
    """A Markov model that saw ``workflows`` as an engine would have."""
    predictor = MarkovPredictor(steps=steps)
    for workflow in workflows:
        agents = _agents(workflow)
        for call, agent in enumerate(agents):
            predictor.observe(agents[:call], agent)
        predictor.observe(agents, None)
    return predictor


def _agents(workflow: ScriptedWorkflow) -> tuple[str, ...]:
    return tuple(call.agent for call in workflow.calls)
