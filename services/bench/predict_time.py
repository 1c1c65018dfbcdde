"""What the predictor that the engine serves with costs, for ``pbkv bench policy``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pbkv.forecast import OnlinePredictor
from pbkv.predict import make_predictor
from pbkv.settings import PolicySettings
from services.bench.synthetic_tree import AGENTS

PREFIXES = 1024
_CALLS = 12
_LEARNT = 500


def measure_predict(
    settings: PolicySettings, repeats: int, seed: int, clock: Callable[[], int]
) -> list[int] | None:
    """Nanoseconds of each forecast of 1,024 prefixes of 1 to 12 calls, in one batch. None if
    ``settings`` name no predictor.

    A predictor that learns has seen 500 workflows by then; hidden states are none, as of calls that
    wait for their prefill.
    """
    predictor = make_predictor(settings)
    if predictor is None:
        return None
    rng = np.random.default_rng(seed)

    def calls() -> list[str]:
        return [
            AGENTS[number] for number in rng.integers(len(AGENTS), size=rng.integers(1, _CALLS + 1))
        ]

    if isinstance(predictor, OnlinePredictor):
        for _ in range(_LEARNT):
            workflow = calls()
            for made in range(1, len(workflow)):
                predictor.observe(workflow[:made], workflow[made])
            predictor.observe(workflow, None)
    hidden_states = np.zeros((PREFIXES, 0), dtype=np.float32)
    nanoseconds = []
    for repeat in range(-1, repeats):
        # Fresh prefixes every time: what a predictor remembers of the last batch must not help.
        prefixes: list[Any] = [tuple(calls()) for _ in range(PREFIXES)]
        start = clock()
        predictor.forecast(prefixes, hidden_states)
        taken = clock() - start
        if repeat >= 0:
            nanoseconds.append(taken)
    return nanoseconds
