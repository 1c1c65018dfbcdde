"""The errors of the library, one tree.

::

    PbkvError
      InvalidInvocation   a request's workflow fields are malformed
      InvalidEvent        a lifecycle event on the wire is malformed
      InvalidTrace        a trace, or a log to be imported as one, is malformed
        TraceUnavailable  what reads or writes that form is not installed
      SettingsError       a setting is unknown, mistyped or out of range
        UnknownPolicy     no policy of that name
        InvalidCheckpoint a predictor's checkpoint cannot be read
        InvalidRedisUrl   the address of Redis is malformed; a ValueError too, for pydantic

Every message is one line, meant for the person who sent the input, and never holds prompt text.
"""


class PbkvError(Exception):
    """Base of every error this library raises on purpose."""


class InvalidInvocation(PbkvError):
    """The workflow fields that ride on a request are malformed."""


class InvalidEvent(PbkvError):
    """A lifecycle event read from the wire is malformed."""


class InvalidTrace(PbkvError):
    """A trace file, an entry of the trace stream or a foreign log is malformed."""


class TraceUnavailable(InvalidTrace):
    """The library that reads or writes this form of traces is not installed."""


class SettingsError(PbkvError):
    """A setting is unknown, has the wrong type or is out of range."""


class UnknownPolicy(SettingsError):
    """No eviction policy is registered under the given name."""


class InvalidCheckpoint(SettingsError):
    """A predictor's checkpoint is missing, of another format or damaged."""


class InvalidRedisUrl(SettingsError, ValueError):
    """The address of Redis, or of its Sentinels, is malformed. The text shows no password."""
