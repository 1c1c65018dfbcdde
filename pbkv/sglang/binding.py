"""What one scheduler process shares between its cache, its tree and its request loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pbkv.policy import EvictionPolicy
from pbkv.sglang.record import Recorder
from pbkv.sglang.views import NodeViews

if TYPE_CHECKING:
    from pbkv.sglang.forecasting import Forecaster
    from pbkv.sglang.hidden_states import HiddenStateCapture, HiddenStateSink
    from pbkv.sglang.lifecycle import LifecycleSource
    from pbkv.sglang.prefetch import EnginePrefetch
    from pbkv.sglang.queueing import WaitingRequests


@dataclass(slots=True)
class PolicyBinding:
    """The policy of this process and what it reports to.

    ``now_s`` is the clock of rank 0 as last broadcast: every rank uses it instead of its own.
    ``source`` is None on every rank but the first, ``prefetch`` without a policy that prefetches
    or without a host tier. ``forecaster`` is on the first rank, if the policy uses forecasts;
    ``capture`` is on the first rank too, if anyone wants hidden states: ``hidden_state_sinks``.
    ``captures_layer``: they are those of a layer, which the model hands out beside the last ones.
    """

    policy: EvictionPolicy
    recorder: Recorder
    views: NodeViews = field(default_factory=NodeViews)
    now_s: float = 0.0
    source: LifecycleSource | None = None
    forecaster: Forecaster | None = None
    capture: HiddenStateCapture | None = None
    prefetch: EnginePrefetch | None = None
    waiting: WaitingRequests | None = None
    hidden_state_sinks: tuple[HiddenStateSink, ...] = ()
    captures_layer: bool = False


_current: PolicyBinding | None = None


def bind(binding: PolicyBinding) -> None:
    """Make ``binding`` that of this process, for the cache that is about to be built.

    SGLang builds components and tree core by name and passes them nothing of ours, so the one
    thing they share is found here.
    """
    global _current  # noqa: PLW0603  (one policy per process, bound once)
    _current = binding


def current_binding() -> PolicyBinding:
    """The binding of this process. Raises RuntimeError where no policy was bound."""
    if _current is None:
        raise RuntimeError("no policy is bound in this process")
    return _current


def optional_binding() -> PolicyBinding | None:
    """The binding of this process, None in one that runs no policy."""
    return _current
