"""What can go wrong with an engine process.

EngineError
 |- InvalidEngineOptions   an option is out of range or does not fit another
 |- EngineExited           the process ended while it was needed
 `- EngineNotReady         the process runs and did not answer in time
"""


class EngineError(Exception):
    """Base of everything this package raises on purpose; the text is fit for an operator."""


class InvalidEngineOptions(EngineError):
    """The options describe no engine that could start."""


class EngineExited(EngineError):
    """The engine process ended. ``reason`` is one line, ``log_tail`` its last log lines."""

    def __init__(self, reason: str, log_tail: tuple[str, ...]) -> None:
        super().__init__("\n".join((reason, *log_tail)))
        self.reason = reason
        self.log_tail = log_tail


class EngineNotReady(EngineError):
    """The engine process is alive and did not become healthy in time."""
