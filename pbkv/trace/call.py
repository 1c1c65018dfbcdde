"""A record together with what only a training file holds beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pbkv.hidden_source import POST_NORM
from pbkv.trace.record import InvocationRecord


@dataclass(frozen=True, slots=True, eq=False)
class TracedCall:
    """``hidden_state`` is (D,) float32, the state of the prompt's last token, or None;
    ``hidden_source`` says which state of the model it is, see :mod:`pbkv.hidden_source`."""

    record: InvocationRecord
    hidden_state: NDArray[np.float32] | None = None
    hidden_source: str = POST_NORM
