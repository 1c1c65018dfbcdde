"""Names of the Redis keys that router, replicas and engines share (design section 5)."""

from __future__ import annotations

PREFIX = "pbkv:"

TRACES_KEY = f"{PREFIX}traces"
"""Stream, trimmed: finished calls of all workflows, see :mod:`pbkv.trace`."""

REPLICAS_PATTERN = f"{PREFIX}replica:*"


def replica_key(replica_id: str) -> str:
    """Hash with TTL: what a replica says of itself."""
    return f"{PREFIX}replica:{replica_id}"


def workflow_key(tenant: str, workflow_id: str) -> str:
    """Hash with idle TTL: pin and state of one workflow."""
    return f"{PREFIX}workflow:{tenant}:{workflow_id}"


def events_key(replica_id: str) -> str:
    """Stream, trimmed: the lifecycle events that a replica's policy consumes."""
    return f"{PREFIX}events:{replica_id}"


def drain_key(replica_id: str) -> str:
    """Text with TTL: why a replica is asked to drain, by who knows that its place is going."""
    return f"{PREFIX}drain:{replica_id}"
