"""A record together with what only a training file holds beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pbkv.trace.record import InvocationRecord


@dataclass(frozen=True, slots=True, eq=False)
class TracedCall:
    """``hidden_state`` is (D,) float32, the post-norm state of the prompt's last token, or None."""

    record: InvocationRecord
    hidden_state: NDArray[np.float32] | None = None
