"""The Ray Serve deployment: one replica supervises one engine.

Serve owns lifecycle, health, placement and scaling. Requests do not pass through it: routers
connect to the engine's own port, which they find in Redis.
"""

# No postponed annotations here: Serve looks at the type of build_app's argument to validate it.

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import serve
from ray.serve import Application
from ray.util import get_node_ip_address

from services.draining import DrainState
from services.engine import EngineError, EngineProcess
from services.errors import ReconfigureRefused, ReplicaError
from services.models import resolve_model
from services.place import settle
from services.ports import free_port
from services.settings import ReplicaSettings, replica_settings
from services.supervisor import HEALTH_TIMEOUT_S, ReplicaSupervisor

logger = logging.getLogger("ray.serve")

DEPLOYMENT_NAME = "EngineReplica"
# Beyond the drain itself: settling, the last heartbeat and the end of the engine.
_SHUTDOWN_MARGIN_S = 30.0
_UNHEALTHY_MARGIN_S = 5.0


class EngineReplica:
    """Starts an engine, keeps it registered, and ends with it.

    Ready (for Serve) once the engine serves. Its only user configuration is ``drain_limit_s``,
    which may be lowered while it runs; everything else is given to the engine at its start.
    """

    # Serve awaits a constructor that is a coroutine.
    async def __init__(self, settings: Mapping[str, Any]) -> None:  # type: ignore[misc]
        self._settings = settle(replica_settings(settings), os.environ, get_node_ip_address)
        self._drain_limit_s = self._settings.drain_limit_s
        context = serve.get_replica_context()
        replica_id = context.replica_id.unique_id
        model_path = Path(
            resolve_model(self._settings.model, cache_dir=self._settings.model_cache_dir)
        )
        port = free_port(self._settings.host)
        options = self._settings.engine_options(
            model_path=model_path,
            replica_id=replica_id,
            port=port,
            local_rank=context.rank.local_rank,
        )
        self._supervisor = ReplicaSupervisor(
            EngineProcess(options),
            self._settings.identity(
                replica_id=replica_id, port=port, epoch=int(time.time() * 1000)
            ),
            self._settings.redis_url,
        )
        try:
            took_s = await self._supervisor.start(self._settings.ready_timeout_s)
        except EngineError as problem:
            raise ReplicaError(f"replica {replica_id}: {problem}") from None
        logger.info("replica %s serves after %.1f s", replica_id, took_s)

    async def check_health(self) -> None:
        """Called by Serve; raises when the engine is dead or hangs, and Serve replaces this one."""
        await self._supervisor.check_health()

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Called by Serve; what an autoscaling policy sees of this replica."""
        load = self._supervisor.load
        return {
            "kv_used_frac": load.fraction(load.kv_tokens_used),
            "kv_active_frac": load.fraction(load.kv_tokens_active),
            "pinned_workflows": float(load.workflows),
            "queued_requests": float(load.queued_requests),
        }

    def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Called by Serve with a new user configuration.

        Raises :class:`ReconfigureRefused` for anything but a ``drain_limit_s`` that the time
        Serve grants for a shutdown still covers.
        """
        self._drain_limit_s = drain_limit(user_config, self._settings.drain_limit_s)

    async def __del__(self) -> None:
        """Called by Serve before it ends this replica: drain, then stop."""
        supervisor: ReplicaSupervisor | None = getattr(self, "_supervisor", None)
        if supervisor is None:
            return
        state = await supervisor.drain(lambda: self._drain_limit_s)
        if state is DrainState.GIVEN_UP:
            logger.warning("drain limit of %g s passed with work left", self._drain_limit_s)
        await supervisor.stop()


def drain_limit(user_config: Mapping[str, Any], granted_s: float) -> float:
    """The drain limit that ``user_config`` asks for. Raises :class:`ReconfigureRefused`."""
    refused = sorted(str(name) for name in user_config if name != "drain_limit_s")
    if refused:
        raise ReconfigureRefused(
            f"{', '.join(refused)} cannot change while a replica runs; only drain_limit_s can"
        )
    limit_s = user_config.get("drain_limit_s", granted_s)
    if isinstance(limit_s, bool) or not isinstance(limit_s, int | float):
        raise ReconfigureRefused("drain_limit_s must be a number of seconds")
    if not 0 <= limit_s <= granted_s:
        raise ReconfigureRefused(f"drain_limit_s is {limit_s:g}; it must be 0 to {granted_s:g}")
    return float(limit_s)


def build_app(settings: ReplicaSettings) -> Application:
    """The Serve application of ``settings``: for ``serve.run`` and for ``serveConfigV2``.

    A Serve configuration may override the number of replicas, autoscaling and resources.
    """
    deployment = serve.deployment(EngineReplica).options(
        name=DEPLOYMENT_NAME,
        num_replicas=settings.num_replicas,
        ray_actor_options={"num_cpus": settings.num_cpus, "num_gpus": settings.num_gpus},
        health_check_period_s=1.0,
        health_check_timeout_s=HEALTH_TIMEOUT_S + _UNHEALTHY_MARGIN_S,
        graceful_shutdown_wait_loop_s=0.5,
        graceful_shutdown_timeout_s=settings.drain_limit_s + _SHUTDOWN_MARGIN_S,
    )
    return deployment.bind(settings.model_dump(mode="json"))
