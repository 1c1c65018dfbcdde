"""Which state of the served model stands for a prompt: after the last norm, or a layer's output.

The name travels with the states: in settings, in the shards that replicas write, in trace files
and in checkpoints, so that a predictor is never given states of another place.
"""

from __future__ import annotations

import re

from pbkv.errors import SettingsError

POST_NORM = "post-norm"
"""After the last norm, as in the paper."""

NO_SOURCE = "none"
"""Of a predictor that reads no hidden states."""

_LAYER = re.compile(r"layer ([1-9][0-9]{0,3})")


def layer_source(layer: int) -> str:
    """The residual stream after block ``layer``, counted from 1."""
    return f"layer {layer}"


def layer_of(source: str) -> int | None:
    """The block, None for :data:`POST_NORM`. Raises :class:`SettingsError` for another text."""
    if source == POST_NORM:
        return None
    match = _LAYER.fullmatch(source)
    if match is None:
        raise SettingsError(
            f"unknown source of hidden states {source[:40]!r}; "
            f"choose {POST_NORM}, or {layer_source(15)} and the like"
        )
    return int(match[1])
