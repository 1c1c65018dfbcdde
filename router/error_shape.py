"""How errors look over HTTP: ``{"error": {"message", "type", "code"}}``, always."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from router.errors import EngineFailed, EngineRefused, RouterError

_CONTEXT_LENGTH_CODE = "context_length_exceeded"
# The engine's words for a prompt beyond its context, and for one beyond its KV pool.
_TOO_LONG = ("context length", "maximum allowed length")
_ENGINE_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}


def error_body(error: RouterError) -> bytes:
    """The JSON that a client reads."""
    return orjson.dumps(
        {"error": {"message": error.message, "type": error.error_type, "code": error.code}}
    )


def error_event(error: RouterError) -> bytes:
    """The last server-sent event of a stream that failed."""
    return b"data: " + error_body(error) + b"\n\n"


def error_response(error: RouterError) -> Response:
    """The answer to a request that failed."""
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return Response(error_body(error), error.status, headers, media_type="application/json")


def engine_error(status: int, body: bytes, retry_after_s: int) -> EngineRefused | EngineFailed:
    """An engine's error answer as an error of this package.

    The message of a 4xx is kept: it tells the client what to change. That of a 5xx is not, it
    speaks of the engine's inside; only an overloaded engine (503) has something to say.
    """
    message = _engine_message(body)
    if status < 400:
        return EngineFailed(f"the replica answered with status {status}", status=502)
    if status >= 500:
        if status == 503:
            text = message or "the replica cannot take the request now"
            return EngineFailed(text, status=503, retry_after_s=retry_after_s)
        return EngineFailed(f"the replica failed with status {status}", status=500)
    # 422 is FastAPI's word for a malformed body, which OpenAI answers with 400.
    status = 400 if status == 422 else status
    return EngineRefused(
        message or f"the replica refused the request with status {status}",
        status=status,
        error_type=_ENGINE_TYPES.get(status, "invalid_request_error"),
        code=_engine_code(status, message),
        retry_after_s=retry_after_s if status == 429 else None,
    )


def _engine_message(body: bytes) -> str:
    try:
        answer: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    if not isinstance(answer, dict):
        return ""
    nested = answer.get("error")
    for holder in (nested, answer):
        if isinstance(holder, dict):
            for field in ("message", "detail"):
                if isinstance(holder.get(field), str):
                    return str(holder[field])
    return nested if isinstance(nested, str) else ""


def _engine_code(status: int, message: str) -> str | None:
    # OpenAI clients look for this code to know that they must shorten the prompt.
    if status == 400 and any(words in message for words in _TOO_LONG):
        return _CONTEXT_LENGTH_CODE
    return "rate_limit_exceeded" if status == 429 else None


def install_handlers(app: FastAPI) -> None:
    """Make every error of the application look alike."""

    async def on_router_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RouterError)
        return error_response(error)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        refused = EngineRefused(
            f"{request.method} {request.url.path[:200]}: {error.detail}",
            status=error.status_code,
            error_type="invalid_request_error" if error.status_code < 500 else "api_error",
            code=_HTTP_CODES.get(error.status_code),
        )
        response = error_response(refused)
        response.headers.update(error.headers or {})
        return response

    async def on_validation_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return error_response(
            EngineRefused(
                first_problem(error.errors()),
                status=400,
                error_type="invalid_request_error",
                code=None,
            )
        )

    app.add_exception_handler(RouterError, on_router_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)


def first_problem(errors: Any) -> str:
    """One line for the first of pydantic's errors; it names the field, never the value."""
    first = errors[0]
    where = ".".join(str(part)[:64] for part in first["loc"] if part not in ("body", "query"))
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
