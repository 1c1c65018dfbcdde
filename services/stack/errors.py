"""What can go wrong with a local stack.

StackError
 |- StackRefused   it could not start as asked: a port, a model, memory, Redis
 `- StackFailed    a part of it ended and could not be brought back
"""


class StackError(Exception):
    """Base of everything this package raises on purpose; the text is one line for a user."""


class StackRefused(StackError):
    """What was asked for cannot start on this machine, or not as asked."""


class StackFailed(StackError):
    """A part of the stack ended for good."""
