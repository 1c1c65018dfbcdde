"""Ray and Ray Serve on this machine, for the replicas of one stack."""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import tempfile
from pathlib import Path

from services.settings import ReplicaSettings
from services.stack.errors import StackFailed

APP_NAME = "pbkv"
_RAY_ENVIRON = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1",
    # A worker that ends would kill its direct children, the guard of the engine first, which then
    # could not clean up after the engine. The guard notices the end of its parent by itself.
    "RAY_kill_child_processes_on_worker_exit": "false",
}
_OBJECT_STORE_BYTES = 100 << 20
# A replica that restarts may overlap with the one it replaces.
_CPUS_PER_REPLICA = 0.2
# Ray puts sockets below this folder, and a socket's path may have 107 characters.
_LONGEST_TEMP_DIR = 40
_FAILURE = re.compile(r"(?:ReplicaError|InvalidReplicaSettings|ModelError\w*): (?P<reason>.*)")


class Cluster:
    """A Ray cluster of its own, never one that already runs: ended by ``stop``, or with this
    process, whose death Ray's own processes follow by the parent-death signal."""

    def __init__(self) -> None:
        self._temp_dir: Path | None = None
        self._started = False

    def start(self, settings: ReplicaSettings) -> None:
        """Start Ray and deploy the replicas; does not wait for them."""
        os.environ |= _RAY_ENVIRON
        self._temp_dir = _make_temp_dir()
        # Imported here: it takes seconds and reads the environment.
        import ray
        from ray import serve

        from services.replica import build_app

        self._started = True
        ray.init(
            address="local",
            num_cpus=max(1, math.ceil(settings.num_replicas * _CPUS_PER_REPLICA)),
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=str(self._temp_dir),
        )
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        serve.start(proxy_location="Disabled")
        serve.run_many(
            [serve.RunTarget(target=build_app(settings), name=APP_NAME, route_prefix=None)],
            wait_for_applications_running=False,
        )

    def raise_if_failed(self) -> None:
        """Raises :class:`StackFailed` with the reason of the first replica that did not start.

        Serve would try again many times; what fails at the start of a stack fails again.
        """
        from ray import serve
        from ray.serve.schema import ApplicationStatus

        app = serve.status().applications.get(APP_NAME)
        if app is None:
            return
        texts = [app.message, *(deployment.message for deployment in app.deployments.values())]
        reasons = [match["reason"] for text in texts for match in _FAILURE.finditer(text)]
        if reasons:
            raise StackFailed(f"the replicas do not start: {reasons[-1]}")
        if app.status is ApplicationStatus.DEPLOY_FAILED:
            raise StackFailed(f"the replicas do not start: {app.message}")

    def stop(self) -> None:
        """End Ray with everything it started. The replicas' guards then end the engines."""
        if self._started:
            import ray

            ray.shutdown()
        if self._temp_dir is not None:
            shutil.rmtree(self._temp_dir, ignore_errors=True)


def _make_temp_dir() -> Path:
    base = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(dir=base if len(base) <= _LONGEST_TEMP_DIR else "/tmp"))
