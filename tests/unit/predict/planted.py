"""Traces in which the hidden state alone says what comes next."""

import numpy as np

from pbkv.predict.evaluation import split_traces

HIDDEN = 8


def planted_traces(count, seed=0):
    """``Start``, then ``Left`` or ``Right`` by the sign of one number in the state, then END."""
    rng = np.random.default_rng(seed)
    traces, states = [], []
    for _ in range(count):
        state = rng.normal(size=(2, HIDDEN)).astype(np.float32)
        traces.append(("Start", "Left" if state[0, 3] > 0 else "Right"))
        states.append(state)
    return traces, states


def planted_split(train=300, test=100):
    traces, states = planted_traces(train + test)
    return split_traces(traces, states, train=train, test=test, steps=2)
