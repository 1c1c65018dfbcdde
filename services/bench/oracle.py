"""A predictor that knows the scripts: what the cache would gain if forecasts were always right.

For experiments only. The benchmark writes the agents of every workflow into a file, and the engine
is started with this module's :func:`make_oracle` as its predictor and that file as its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pbkv.errors import SettingsError
from pbkv.predict.checkpoint import FORMAT_VERSION, Checkpoint, read_checkpoint, write_checkpoint
from pbkv.settings import PolicySettings

FAMILY = "oracle"
PREDICTOR = "services.bench.oracle:make_oracle"


class OracleScripts(Checkpoint):
    """The agents of each workflow, first call to last."""

    workflows: dict[str, Annotated[list[str], Field(min_length=1)]]


class OraclePredictor:
    """Gives probability 1 to what the script says, and to END after its last call.

    Of a workflow that is not in the scripts, or that left its script, it says that the end is next:
    so it gains nothing.
    """

    wants_hidden_states = False
    version = FAMILY

    def __init__(self, scripts: Mapping[str, Sequence[str]], *, steps: int) -> None:
        self._scripts = scripts
        self._steps = steps
        self.agents = tuple(sorted({agent for script in scripts.values() for agent in script}))
        self._column = {agent: column for column, agent in enumerate(self.agents)}
        self._remaining = np.zeros(0, dtype=np.float32)

    @property
    def remaining_calls(self) -> NDArray[np.float32]:
        """Calls that the scripts still hold, (B,), for the prefixes of the last forecast."""
        return self._remaining

    def forecast(
        self, prefixes: Sequence[Sequence[str]], hidden_states: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Nothing is known of a prefix without its workflow: the end."""
        return self.forecast_workflows([""] * len(prefixes), prefixes, hidden_states)

    def forecast_workflows(
        self,
        workflow_ids: Sequence[str],
        prefixes: Sequence[Sequence[str]],
        hidden_states: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """Distributions (B, K, V+1) that are 0 or 1."""
        end = len(self.agents)
        forecasts = np.zeros((len(prefixes), self._steps, end + 1), dtype=np.float32)
        self._remaining = np.zeros(len(prefixes), dtype=np.float32)
        for row, (workflow_id, prefix) in enumerate(zip(workflow_ids, prefixes, strict=True)):
            following = self._following(workflow_id, prefix)
            self._remaining[row] = len(following)
            for step in range(self._steps):
                column = self._column[following[step]] if step < len(following) else end
                forecasts[row, step, column] = 1.0
        return forecasts

    def _following(self, workflow_id: str, prefix: Sequence[str]) -> Sequence[str]:
        script = self._scripts.get(workflow_id, ())
        done = len(prefix)
        return script[done:] if list(prefix) == list(script[:done]) else ()


def write_scripts(path: Path, scripts: Mapping[str, Sequence[str]]) -> None:
    """Write what :func:`make_oracle` reads."""
    workflows = {workflow_id: list(agents) for workflow_id, agents in scripts.items()}
    write_checkpoint(path, OracleScripts(format=FORMAT_VERSION, family=FAMILY, workflows=workflows))


def make_oracle(settings: PolicySettings) -> OraclePredictor:
    """The oracle of the scripts in ``predictor_checkpoint``. Raises :class:`SettingsError`."""
    if not settings.predictor_checkpoint:
        raise SettingsError("the oracle needs its scripts as predictor_checkpoint")
    content = read_checkpoint(Path(settings.predictor_checkpoint), FAMILY, OracleScripts)
    return OraclePredictor(content.workflows, steps=settings.lookahead_steps)
