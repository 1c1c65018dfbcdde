"""What can go wrong with a replica.

ReplicaError
 |- InvalidReplicaSettings   the settings describe no replica that could start
 |- ReplicaUnhealthy         its engine is dead or does not answer
 `- ReconfigureRefused       a setting that a running replica cannot change
"""


class ReplicaError(Exception):
    """Base of everything a replica raises on purpose; the text is one line."""


class InvalidReplicaSettings(ReplicaError):
    """The settings are malformed or contradict each other."""


class ReplicaUnhealthy(ReplicaError):
    """The engine of the replica is dead or does not answer."""


class ReconfigureRefused(ReplicaError):
    """Only a new replica can have this setting."""
