"""What can go wrong between the watcher and the cluster.

FleetError
 |- NoCluster        no configuration by which to reach an API server
 |- Unreachable      the API server does not answer, or not with an answer
 `- ApiRefused       it answered with an error; ``status`` is the HTTP status
     |- NotFound         404
     |- Conflict         409: exists already, or changed since it was read
     `- Expired          410: the version to continue from is no longer known
"""

from __future__ import annotations


class FleetError(Exception):
    """Base of what this package raises on purpose; the text is one line."""


class NoCluster(FleetError):
    """Neither a pod's service account nor a kubeconfig."""


class Unreachable(FleetError):
    """A connection was refused, cut or timed out."""


class ApiRefused(FleetError):
    """The API server said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class NotFound(ApiRefused):
    """No such object."""


class Conflict(ApiRefused):
    """Another was faster."""


class Expired(ApiRefused):
    """Read everything anew."""
