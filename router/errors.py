"""The errors of the router, one tree. Each knows how it looks over HTTP.

::

    RouterError
      SettingsError            a setting is unknown, mistyped or out of range (never over HTTP)
      RedisAway                Redis did not answer, memory takes over (never over HTTP)
      NoFirstByte, CutOff      one attempt at a replica failed, the relay decides (never over HTTP)
      RequestError             the client's doing
        InvalidRequest         400
        Unauthorized           401
        UnknownModel           404
        UnknownWorkflow        404
        BodyTooLarge           413
        HeadersTooLarge        431
        TooManyRequests        429, Retry-After
        EngineRefused          the engine's own 4xx, re-shaped
      ServingError             the stack's doing
        EngineFailed           500 or 503, the engine's own 5xx
        ReplicaLost            502
        NoReplicaReady         503, Retry-After
        StateUnavailable       503, Retry-After
        ServingTimeout         504

Every message is one line for the person who sent the request and never holds prompt text.
"""

from __future__ import annotations


class RouterError(Exception):
    """Base of every error this package raises on purpose."""

    status = 500
    error_type = "api_error"
    code: str | None = None

    def __init__(
        self, message: str, *, code: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
        if code is not None:
            self.code = code


class SettingsError(RouterError):
    """A setting is unknown, has the wrong type or is out of range."""


class RedisAway(RouterError):
    """Redis did not answer; whoever asked goes on without it."""


class NoFirstByte(RouterError):
    """The replica went away before a byte of its answer came; the request may go elsewhere.

    ``refused`` says that not even a connection could be made.
    """

    def __init__(self, reason: str, *, refused: bool) -> None:
        super().__init__(reason)
        self.refused = refused


class CutOff(RouterError):
    """The replica went away after the first byte."""


class RequestError(RouterError):
    """The request cannot be served as it is; sending it again changes nothing."""

    status = 400
    error_type = "invalid_request_error"


class InvalidRequest(RequestError):
    """The body, a header or a parameter is malformed."""


class Unauthorized(RequestError):
    """No API key, or one that is not known."""

    status = 401
    error_type = "authentication_error"
    code = "invalid_api_key"


class UnknownModel(RequestError):
    """No replica serves a model of that name."""

    status = 404
    code = "model_not_found"


class UnknownWorkflow(RequestError):
    """No workflow of that id is known to this tenant."""

    status = 404
    code = "workflow_not_found"


class BodyTooLarge(RequestError):
    """The body is longer than the limit."""

    status = 413
    code = "request_too_large"


class HeadersTooLarge(RequestError):
    """The headers together are longer than the limit."""

    status = 431
    code = "headers_too_large"


class TooManyRequests(RequestError):
    """This router already carries as many requests as it may."""

    status = 429
    error_type = "rate_limit_error"
    code = "too_many_requests"


class EngineRefused(RequestError):
    """The engine answered with a 4xx status."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        error_type: str,
        code: str | None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message, code=code, retry_after_s=retry_after_s)
        self.status = status
        self.error_type = error_type


class ServingError(RouterError):
    """The request was good and could not be served."""


class EngineFailed(ServingError):
    """The engine answered with a 5xx status."""

    code = "engine_error"

    def __init__(self, message: str, *, status: int, retry_after_s: int | None = None) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.status = status


class ReplicaLost(ServingError):
    """The replica went away while it answered, or two in a row before they did."""

    status = 502
    code = "replica_lost"


class NoReplicaReady(ServingError):
    """No replica can take the request now."""

    status = 503
    error_type = "service_unavailable_error"
    code = "no_replica_ready"


class StateUnavailable(ServingError):
    """Redis is away and the question cannot be answered from this router's memory."""

    status = 503
    error_type = "service_unavailable_error"
    code = "state_unavailable"


class ServingTimeout(ServingError):
    """The replica did not answer in time."""

    status = 504
    error_type = "timeout_error"
    code = "timeout"
