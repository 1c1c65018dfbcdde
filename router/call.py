"""One request to the engine, checked as far as routing needs it: the rest is for the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pbkv.invocation import PARAMS_KEY, Invocation
from router.errors import BodyTooLarge, InvalidRequest, UnknownModel
from router.identity import BODY_FIELD

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
EMBEDDINGS_PATH = "/v1/embeddings"
RESPONSES_PATH = "/v1/responses"
ENGINE_PATHS = (CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH, RESPONSES_PATH)

_USAGE_PATHS = (CHAT_PATH, COMPLETIONS_PATH)
_CUSTOM_PARAMS = "custom_params"
_STREAM_OPTIONS = "stream_options"


@dataclass(frozen=True, slots=True)
class EngineCall:
    """A request that can be routed. ``body`` is what goes to the engine, without the invocation.

    ``strip_usage`` says that the usage at the end of the stream was asked for by the router alone.
    """

    path: str
    body: dict[str, Any]
    model: str
    stream: bool
    strip_usage: bool

    def encode(self, invocation: Invocation) -> bytes:
        """The body for the engine. Raises :class:`InvalidRequest`."""
        custom = {**(self.body.get(_CUSTOM_PARAMS) or {}), PARAMS_KEY: invocation.to_params()}
        try:
            return orjson.dumps({**self.body, _CUSTOM_PARAMS: custom})
        except orjson.JSONEncodeError:
            raise InvalidRequest("the body is nested too deeply") from None


async def read_body(
    chunks: AsyncIterator[bytes], declared_bytes: str | None, max_bytes: int
) -> bytes:
    """The request's body. Raises :class:`BodyTooLarge` as early as possible."""
    too_large = BodyTooLarge(f"the body is longer than {max_bytes} bytes")
    if (
        declared_bytes is not None
        and declared_bytes.isdecimal()
        and int(declared_bytes) > max_bytes
    ):
        raise too_large
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > max_bytes:
            raise too_large
        parts.append(chunk)
    return b"".join(parts)


def parse_object(body: bytes) -> dict[str, Any]:
    """A JSON object. Raises :class:`InvalidRequest`, which never quotes the body."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        where = f"line {problem.lineno} column {problem.colno}" if body else "it is empty"
        raise InvalidRequest(f"the body is not valid JSON: {where}") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body must be a JSON object")
    return value


def parse_call(path: str, body: dict[str, Any], models: Sequence[str]) -> EngineCall:
    """Check ``body`` for ``path``. Raises :class:`InvalidRequest`, :class:`UnknownModel`.

    ``models`` are the served names, not empty. The result shares values with ``body``, which is
    not mutated.
    """
    model = resolve_model(body.get("model"), models)
    if path == CHAT_PATH:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise InvalidRequest("messages must be a list with at least one message")
    if not isinstance(body.get(_CUSTOM_PARAMS) or {}, dict):
        raise InvalidRequest("custom_params must be an object")
    outgoing = {name: value for name, value in body.items() if name != BODY_FIELD}
    if outgoing.get("model") is None:
        outgoing["model"] = model
    # Embeddings are never streamed, whatever the body says.
    stream = body.get("stream") is True and path != EMBEDDINGS_PATH
    strip_usage = False
    if stream and path in _USAGE_PATHS:
        options = body.get(_STREAM_OPTIONS)
        if options is None:
            options = {}
        if isinstance(options, dict) and not options.get("include_usage"):
            outgoing[_STREAM_OPTIONS] = {**options, "include_usage": True}
            strip_usage = True
    return EngineCall(path, outgoing, model, stream, strip_usage)


def resolve_model(requested: Any, models: Sequence[str]) -> str:
    """The served model that answers for ``requested``; without a name, the only one."""
    if requested is None:
        if len(models) == 1:
            return models[0]
        raise InvalidRequest(f"model is missing; served: {', '.join(models)}")
    if not isinstance(requested, str):
        raise InvalidRequest("model must be a string")
    if requested in models:
        return requested
    for model in models:
        # The engine's way to ask for a LoRA adapter.
        if requested.startswith(f"{model}:"):
            return model
    raise UnknownModel(f"the model {requested[:128]!r} does not exist; served: {', '.join(models)}")
