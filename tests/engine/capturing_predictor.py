"""A predictor that writes down the hidden states it is given: loaded into an engine by its name."""

from pathlib import Path

import numpy as np

from pbkv.predict import MarkovPredictor

NAME = "tests.engine.capturing_predictor:make"


class CapturingPredictor(MarkovPredictor):
    """Forecasts as Markov does; each state goes to a file named after the last agent."""

    wants_hidden_states = True

    def __init__(self, folder: Path, steps: int) -> None:
        super().__init__(steps=steps)
        self._folder = folder

    def forecast(self, prefixes, hidden_states):
        if hidden_states.shape[1]:
            for prefix, state in zip(prefixes, hidden_states, strict=True):
                partial = self._folder / f"{prefix[-1]}.partial.npy"
                np.save(partial, state)
                partial.rename(self._folder / f"{prefix[-1]}.npy")
        return super().forecast(prefixes, hidden_states)


def make(settings):
    """The states go beside a file that stands for the checkpoint, and that never changes."""
    folder = Path(settings.predictor_checkpoint).parent
    return CapturingPredictor(folder, settings.lookahead_steps)
