"""How many replicas a deployment should have: a policy for Ray Serve.

Requests do not pass through Serve, so its own signal, ongoing requests, is always zero here. What
hurts an agent workload is a working set that no longer fits the KV cache, and requests that wait:
every replica reports both (``EngineReplica.record_autoscaling_stats`` in :mod:`services.replica`).

Serve calls the policy several times a second inside its controller and pickles this module by
value: no input or output here, and no import from the rest of the project. Serve itself applies
the delays and bounds of the deployment's ``autoscaling_config`` to what the policy answers. Which
replica goes is Serve's choice; it then drains (:mod:`services.draining`), whatever its pins.

A replica that drains no longer reports, yet its workflows are replaced by new ones elsewhere when
they end. So the load seems to fall just because replicas went: until their drain is over, the
policy takes away no more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ACTIVE_METRIC = "kv_active_frac"
QUEUED_METRIC = "queued_requests"

_MOST_WANTED = "most_wanted"

# Rounding must not make a replica out of a billionth of its load.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class ReplicaDemand:
    """What one replica reported: the share of its KV cache that live workflows hold, 0 to 1, and
    the requests that wait for it.
    """

    active_fraction: float
    queued_requests: float


@dataclass(frozen=True, slots=True)
class Target:
    """What a replica is meant to carry.

    Replicas are taken away only if the rest would then carry at most ``1 - slack`` of it. With
    that, a constant load never makes the count go back and forth.
    """

    active_fraction: float = 0.9
    queued_requests: float = 4.0
    slack: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.active_fraction <= 1:
            raise ValueError(f"active_fraction is {self.active_fraction}; it must be 0 to 1")
        if not self.queued_requests > 0:
            raise ValueError(f"queued_requests is {self.queued_requests}; it must be above 0")
        if not 0 <= self.slack < 1:
            raise ValueError(f"slack is {self.slack}; it must be 0 to below 1")


def wanted_replicas(demands: Sequence[ReplicaDemand], replicas: int, target: Target) -> int:
    """How many replicas the load asks for, at least 1. ``replicas`` is how many there are meant
    to be.

    Replicas that have reported nothing yet are starting: more may be added meanwhile, none is
    taken away.
    """
    active = sum(demand.active_fraction for demand in demands) / target.active_fraction
    queued = sum(demand.queued_requests for demand in demands) / target.queued_requests
    load = max(active, queued)
    least = max(1, math.ceil(load - _EPSILON))
    if least > replicas:
        return least
    if len(demands) < replicas:
        return replicas
    comfortable = max(1, math.ceil(load / (1 - target.slack) - _EPSILON))
    return min(replicas, comfortable)


class WorkflowAutoscaling:
    """:func:`wanted_replicas` as Serve calls it. Parameters as in :class:`Target`.

    ``drain_limit_s`` is how long a replica that goes may take. Serve waits until fewer replicas
    were wanted for ``downscale_delay_s`` and then takes the last answer; here that is the largest
    of all of them, so that one low reading at the wrong moment takes away no replica.
    """

    def __init__(
        self,
        *,
        target_active_fraction: float = 0.9,
        target_queued_requests: float = 4.0,
        slack: float = 0.2,
        drain_limit_s: float = 600.0,
    ) -> None:
        self._target = Target(target_active_fraction, target_queued_requests, slack)
        if not drain_limit_s >= 0:
            raise ValueError(f"drain_limit_s is {drain_limit_s}; it must be 0 or more")
        self._drain_limit_s = drain_limit_s

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """``context`` is Serve's ``AutoscalingContext``; the answer a count and the state that
        Serve hands back in the next one.
        """
        reported: Mapping[str, Mapping[Any, float]] = context.aggregated_metrics or {}
        active = reported.get(ACTIVE_METRIC, {})
        queued = reported.get(QUEUED_METRIC, {})
        running = {str(replica) for replica in context.running_replicas}
        demands = [
            ReplicaDemand(value, queued.get(replica, 0.0))
            for replica, value in active.items()
            if str(replica) in running
        ]
        count = context.target_num_replicas
        wanted = wanted_replicas(demands, count, self._target)
        if wanted >= count:
            return wanted, {}
        most = max(wanted, context.policy_state.get(_MOST_WANTED, 0))
        if most >= count or self._may_drain(context):
            return count, {}
        return most, {_MOST_WANTED: most}

    def _may_drain(self, context: Any) -> bool:
        went_at_s = context.last_scale_down_time
        return went_at_s is not None and context.current_time - went_at_s < self._drain_limit_s
