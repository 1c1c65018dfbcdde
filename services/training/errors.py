"""What can go wrong with learning from a running cluster.

TrainingError
 |- StreamAway           Redis does not answer
 |- InvalidFollow        settings of the follower that make no sense
 `- InvalidPublication   a folder of checkpoints is not one, or has nothing to go back to
"""


class TrainingError(Exception):
    """Base of everything this package raises on purpose; the text is one line."""


class StreamAway(TrainingError):
    """The Redis of the trace stream does not answer."""


class InvalidFollow(TrainingError):
    """A setting of the follower is out of range."""


class InvalidPublication(TrainingError):
    """A folder of published checkpoints cannot be used as one."""
