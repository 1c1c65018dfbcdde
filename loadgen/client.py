"""One streamed chat completion, as a sample whatever becomes of it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import orjson

from loadgen.dialogue import Message
from loadgen.events import DONE, EventReader
from loadgen.records import TOKENS, CallRecord, ErrorKind, token_count
from loadgen.target import AGENT_HEADER, END_HEADER, REPLICA_HEADER, WORKFLOW_HEADER, Target
from pbkv.clients.names import MAX_AGENT_CHARS, sendable

_MAX_TRIES = 6
_MAX_WAIT_S = 60.0
_BY_STATUS = {
    401: ErrorKind.KEY,
    403: ErrorKind.KEY,
    429: ErrorKind.LIMITED,
    503: ErrorKind.UNAVAILABLE,
}
_WAITED_FOR = (429, 503)


@dataclass(frozen=True, slots=True)
class CallRequest:
    """What one call sends; ``due_s`` is when its workflow wanted it."""

    workflow_id: str
    agent: str
    step: int
    messages: Sequence[Message]
    output_tokens: int
    due_s: float
    end: bool = False


@dataclass(slots=True)
class _Progress:
    """What is known of an answer so far."""

    first_token_s: float | None = None
    text: str = ""
    usage: Mapping[str, Any] | None = None
    replica: str = ""
    finished: bool = False
    error: ErrorKind | None = None
    detail: str = ""
    retries: int = 0


class ChatClient:
    """Sends calls over one pool. ``clock`` counts seconds from the start of the run."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        target: Target,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._session = session
        self._target = target
        self._clock = clock
        self._sleep = sleep
        self._url = f"{target.url}/v1/chat/completions"

    async def call(self, request: CallRequest) -> tuple[CallRecord, str]:
        """The record of the call and the text of its answer. Raises CancelledError only."""
        body = orjson.dumps(self._body(request))
        headers = {
            "Content-Type": "application/json",
            WORKFLOW_HEADER: request.workflow_id,
        }
        # A captured trace may hold any name.
        if agent := sendable(request.agent, MAX_AGENT_CHARS):
            headers[AGENT_HEADER] = agent
        if request.end:
            headers[END_HEADER] = "true"
        progress = _Progress()
        sent_s = self._clock()
        for tries_left in reversed(range(_MAX_TRIES)):
            wait_s = await self._try(body, headers, progress)
            if wait_s is None or not tries_left:
                break
            progress.retries += 1
            progress.error = None
            await self._sleep(min(wait_s, _MAX_WAIT_S))
        return self._record(request, sent_s, progress), progress.text

    async def end(self, workflow_id: str) -> None:
        """Tell a router that a workflow is over whose last call did not say so."""
        url = f"{self._target.url}/v1/workflows/{workflow_id}"
        try:
            async with self._session.delete(url, timeout=aiohttp.ClientTimeout(total=5)):
                pass
        except (aiohttp.ClientError, TimeoutError):
            # The router's idle time-out ends the workflow as well.
            return

    def _body(self, request: CallRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._target.model,
            "messages": request.messages,
            "max_tokens": request.output_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._target.exact_lengths:
            body["ignore_eos"] = True
        return body

    async def _try(
        self, body: bytes, headers: Mapping[str, str], progress: _Progress
    ) -> float | None:
        """One attempt; seconds to wait before the next where the endpoint asks for that."""
        try:
            async with self._session.post(self._url, data=body, headers=headers) as answer:
                progress.replica = answer.headers.get(REPLICA_HEADER, "")
                if answer.status != 200:
                    progress.error = _kind_of_status(answer.status)
                    progress.detail = _message_of(await answer.read())
                    if answer.status in _WAITED_FOR:
                        return _retry_after_s(answer.headers.get("Retry-After"), progress.retries)
                    return None
                await self._read(answer, progress)
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            if progress.finished:
                # The whole answer had come before the connection broke.
                return None
            begun = progress.first_token_s is not None
            progress.error = _kind_of(problem, begun)
            progress.detail = _said(problem)
        return None

    async def _read(self, answer: aiohttp.ClientResponse, progress: _Progress) -> None:
        events = EventReader()
        async for received in answer.content.iter_any():
            for data in events.feed(received):
                if data != DONE:
                    self._take(data, progress)
                else:
                    progress.finished = True
        if progress.error is None and not progress.finished:
            nothing = progress.first_token_s is None and progress.usage is None
            progress.error = ErrorKind.NOT_OPENAI if nothing else ErrorKind.BROKEN_STREAM
            progress.detail = "the answer ended without [DONE]"

    def _take(self, data: bytes, progress: _Progress) -> None:
        try:
            chunk = orjson.loads(data)
            if chunk.get("error"):
                progress.error = ErrorKind.BROKEN_STREAM
                progress.detail = _message_of(data)
                return
            if isinstance(chunk.get("usage"), Mapping):
                progress.usage = chunk["usage"]
            for choice in chunk.get("choices") or ():
                delta = choice["delta"]
                if progress.first_token_s is None and any(delta.get(name) for name in TOKENS):
                    progress.first_token_s = self._clock()
                progress.text += delta.get("content") or ""
        except (ValueError, KeyError, TypeError, AttributeError):
            progress.error = ErrorKind.NOT_OPENAI
            progress.detail = "an event of the stream is no chunk of a chat completion"

    def _record(self, request: CallRequest, sent_s: float, progress: _Progress) -> CallRecord:
        usage = progress.usage or {}
        details = usage.get("prompt_tokens_details")
        details = details if isinstance(details, Mapping) else {}
        return CallRecord(
            workflow_id=request.workflow_id,
            agent=request.agent,
            step=request.step,
            due_s=request.due_s,
            sent_s=sent_s,
            finished_s=self._clock(),
            first_token_s=progress.first_token_s,
            prompt_tokens=token_count(usage.get("prompt_tokens")),
            cached_tokens=token_count(details.get("cached_tokens")),
            output_tokens=token_count(usage.get("completion_tokens")),
            retries=progress.retries,
            replica=progress.replica,
            error=progress.error,
            detail=progress.detail if progress.error else "",
        )


def _kind_of_status(status: int) -> ErrorKind:
    return _BY_STATUS.get(status, ErrorKind.SERVER if status >= 500 else ErrorKind.CLIENT)


def _kind_of(problem: BaseException, begun: bool) -> ErrorKind:
    tls = (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError)
    if isinstance(problem, tls):
        return ErrorKind.TLS
    if isinstance(problem, TimeoutError):
        return ErrorKind.TIMEOUT
    if begun or isinstance(problem, aiohttp.ClientPayloadError):
        return ErrorKind.BROKEN_STREAM
    return ErrorKind.UNREACHABLE


def _said(problem: BaseException) -> str:
    if isinstance(problem, aiohttp.ClientConnectorError):
        # Its own text speaks of SSL even where there is none.
        problem = problem.os_error
    return f"{type(problem).__name__}: {problem}"[:200]


def _retry_after_s(header: str | None, retries: int) -> float:
    """Seconds or a date; where the header is missing or neither, twice as long every time."""
    if header is not None:
        with suppress(ValueError):
            return max(0.0, float(header))
        with suppress(ValueError):
            until = parsedate_to_datetime(header)
            # A date without a zone ("-0000", or none) is meant as UTC.
            until = until.replace(tzinfo=until.tzinfo or UTC)
            return max(0.0, (until - datetime.now(UTC)).total_seconds())
    return float(2**retries)


def _message_of(body: bytes) -> str:
    """The message of an OpenAI-shaped error; nothing else of a body is kept, it may hold text."""
    try:
        error = orjson.loads(body)
        error = error.get("error", error)
        return str(error["message"])[:200]
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
