"""One request's way to a replica and its answer's way back.

Before the first byte of an answer a lost replica costs nothing: the request goes once to another.
After it the answer fails, never silently: a stream ends with an error event, anything else becomes
a 502. A client that leaves ends the replica's work at once.

A stream that waits long for its first byte is kept alive by comment lines. They send the status, so
from the first one on an error is an event of the stream; the other replica is still tried.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial

from multidict import CIMultiDict
from starlette.types import Receive, Send

from pbkv.invocation import Invocation
from pbkv.trace.record import InvocationRecord, RecordKind
from router.answer import AnswerFacts
from router.call import EngineCall
from router.error_shape import engine_error, error_body, error_event
from router.errors import (
    CutOff,
    EngineFailed,
    NoFirstByte,
    ReplicaLost,
    RouterError,
    ServingTimeout,
)
from router.identity import Identity
from router.keep_alive import COMMENT, KeepAlive
from router.lifecycle import Pinned
from router.pins import WorkflowKey
from router.serving import Serving
from router.sse import EventFilter
from router.traces import prompt_text
from router.upstream import HOP_BY_HOP, Answer

logger = logging.getLogger(__name__)

_ATTEMPTS = 2
_OWN_ANSWER_HEADERS = frozenset(
    (b"server", b"date", b"content-length", b"x-workflow-id", b"x-pbkv-replica")
)
_EVENTS_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]
_NO_BUFFERING = (b"x-accel-buffering", b"no")
_DROPPED_ANSWER_HEADERS = _OWN_ANSWER_HEADERS | {name.encode() for name in HOP_BY_HOP}

RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """What a relay carries. ``arrived_s`` is on the monotonic clock."""

    call: EngineCall
    key: WorkflowKey
    identity: Identity
    headers: CIMultiDict[str]
    arrived_s: float


class Relay:
    """Carries one request; use once."""

    def __init__(self, serving: Serving, request: RelayRequest) -> None:
        self._serving = serving
        self._request = request
        self._pinned: Pinned | None = None
        self._facts = AnswerFacts()
        self._sent_s = self._finished_s = request.arrived_s
        self._first_token_s: float | None = None
        self._error = ""
        self._started = False
        self._client_left = False
        self._ended = False

    async def run(self, receive: Receive, send: Send) -> None:
        """Answer the request over ``send``; ``receive`` has nothing left but the disconnect."""
        total_s = self._serving.settings.total_timeout_s
        try:
            try:
                async with asyncio.timeout(total_s) as limit:
                    watcher = asyncio.create_task(self._watch_client(receive, limit))
                    try:
                        await self._exchange(send)
                    finally:
                        watcher.cancel()
            except TimeoutError:
                if not self._client_left:
                    raise ServingTimeout(f"the answer took longer than {total_s:g} s") from None
                if self._started and self._facts.finish_reason:
                    # It had the whole answer and did not wait for the end of the connection.
                    return
                self._error = "client_left"
                if self._started:
                    self._serving.metrics.broken_answers.labels("client_left").inc()
        except RouterError as error:
            self._error = error.code or error.error_type
            await self._fail(send, error)
        finally:
            self._finished_s = time.monotonic()
            await self._end_once()

    async def settle(self) -> None:
        """Trace the call and count its tokens; apart from :meth:`run`: no one waits for it."""
        if self._pinned is not None:
            self._serving.traces.add(self._record(self._pinned))
        usage = self._facts.usage
        if usage is not None:
            self._serving.metrics.prompt_tokens.inc(usage.prompt_tokens)
            self._serving.metrics.cached_tokens.inc(usage.cached_tokens)
            await self._serving.lifecycle.add_usage(self._request.key, usage)

    def _record(self, pinned: Pinned) -> InvocationRecord:
        request, facts, settings = self._request, self._facts, self._serving.settings
        usage = facts.usage
        # Spans are measured on the monotonic clock, which never jumps.
        wall_s = time.time() - time.monotonic()
        first_s = self._first_token_s
        return InvocationRecord(
            kind=RecordKind.CALL,
            tenant=request.key.tenant,
            workflow=request.key.workflow_id,
            seq=pinned.seq,
            step=pinned.step,
            agent=request.identity.agent,
            application=request.identity.application,
            request_id=facts.request_id,
            model=request.call.model,
            replica=pinned.replica.id,
            sent_at_s=wall_s + self._sent_s,
            first_token_at_s=None if first_s is None else wall_s + first_s,
            finished_at_s=wall_s + self._finished_s,
            prompt_tokens=usage.prompt_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            completion_tokens=usage.completion_tokens if usage else None,
            finish_reason=facts.finish_reason,
            error=self._error,
            end=request.identity.end,
            prompt=prompt_text(request.call.body) if settings.trace_prompts else None,
        )

    async def _watch_client(self, receive: Receive, limit: asyncio.Timeout) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._client_left = True
        if not limit.expired():
            # The limit is what cancels the exchange; a client that left is a limit of now.
            limit.reschedule(asyncio.get_running_loop().time())

    async def _exchange(self, send: Send) -> None:
        call, settings = self._request.call, self._serving.settings
        every_s = settings.keep_alive_s if call.stream else 0
        answer: Answer | None = None
        try:
            async with KeepAlive(every_s, partial(self._send_comment, send)):
                answer = await self._first_bytes()
            if not 200 <= answer.status < 300:
                raise engine_error(answer.status, await answer.rest(), settings.retry_after_s)
            if answer.is_events:
                await self._forward_events(answer, send)
            elif self._started:
                raise EngineFailed("the replica did not answer with a stream", status=502)
            else:
                await self._forward_whole(answer, send)
        except CutOff:
            raise ReplicaLost("the replica went away while it answered") from None
        finally:
            if answer is not None:
                answer.close()

    async def _send_comment(self, send: Send) -> None:
        if not self._started:
            headers = [*_EVENTS_HEADERS, *self._identity_headers(), _NO_BUFFERING]
            await self._start(send, 200, headers)
        await send({"type": "http.response.body", "body": COMMENT, "more_body": True})
        self._serving.metrics.keep_alives.inc()

    async def _first_bytes(self) -> Answer:
        request, serving = self._request, self._serving
        first_byte_s = serving.settings.first_byte_timeout_s if request.call.stream else None
        lost: frozenset[str] = frozenset()
        for attempt in range(_ATTEMPTS):
            self._pinned = pinned = await serving.lifecycle.call(
                request.key,
                request.identity.agent,
                request.call.model,
                lost=lost,
                counts=attempt == 0,
            )
            body = request.call.encode(self._invocation(pinned))
            self._sent_s = time.monotonic()
            try:
                async with asyncio.timeout(first_byte_s):
                    return await serving.upstream.send(
                        pinned.replica.url + request.call.path, request.headers, body
                    )
            except TimeoutError:
                raise ServingTimeout(
                    f"the replica sent nothing within {first_byte_s:g} s"
                ) from None
            except NoFirstByte as problem:
                logger.warning(
                    "replica %s lost before its first byte: %s", pinned.replica.id, problem
                )
                if problem.refused:
                    serving.directory.mark_down(pinned.replica.id)
                lost |= {pinned.replica.id}
                serving.metrics.retries.inc(attempt + 1 < _ATTEMPTS)
        raise ReplicaLost("two replicas in a row went away before they answered")

    def _invocation(self, pinned: Pinned) -> Invocation:
        return Invocation(
            workflow_id=self._request.key.engine_id,
            agent=self._request.identity.agent,
            at_s=time.time(),
            step=pinned.step,
            seq=pinned.seq,
            end=self._request.identity.end,
        )

    async def _forward_events(self, answer: Answer, send: Send) -> None:
        self._first_token_s = time.monotonic()
        self._serving.metrics.ttft_seconds.observe(self._first_token_s - self._request.arrived_s)
        events = EventFilter(strip_usage=self._request.call.strip_usage)
        if not self._started:
            await self._start(send, answer.status, [*self._answer_headers(answer), _NO_BUFFERING])
        self._facts = events.facts
        chunk = answer.first
        while chunk:
            forward = events.feed(chunk)
            if forward:
                await send({"type": "http.response.body", "body": forward, "more_body": True})
            chunk = await answer.next()
        # Told before the last byte: who asks after the answer finds the workflow ended.
        await self._end_once()
        await send({"type": "http.response.body", "body": events.flush()})

    async def _forward_whole(self, answer: Answer, send: Send) -> None:
        body = await answer.rest()
        await self._end_once()
        headers = self._answer_headers(answer)
        headers.append((b"content-length", str(len(body)).encode()))
        await self._start(send, answer.status, headers)
        await send({"type": "http.response.body", "body": body})
        self._facts = AnswerFacts.of_body(body)

    async def _fail(self, send: Send, error: RouterError) -> None:
        await self._end_once()
        if self._started:
            self._serving.metrics.broken_answers.labels(error.code or "error").inc()
            await send({"type": "http.response.body", "body": error_event(error)})
            return
        body = error_body(error)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *self._identity_headers(),
        ]
        if error.retry_after_s is not None:
            headers.append((b"retry-after", str(error.retry_after_s).encode()))
        await self._start(send, error.status, headers)
        await send({"type": "http.response.body", "body": body})

    async def _start(self, send: Send, status: int, headers: RawHeaders) -> None:
        self._started = True
        await send({"type": "http.response.start", "status": status, "headers": headers})

    def _answer_headers(self, answer: Answer) -> RawHeaders:
        headers = [
            (name.lower(), value)
            for name, value in answer.response.raw_headers
            if name.lower() not in _DROPPED_ANSWER_HEADERS
        ]
        return headers + self._identity_headers()

    def _identity_headers(self) -> RawHeaders:
        headers = [(b"x-workflow-id", self._request.key.workflow_id.encode())]
        if self._pinned is not None:
            headers.append((b"x-pbkv-replica", self._pinned.replica.id.encode()))
        return headers

    async def _end_once(self) -> None:
        """Publish the end that the request asked for, whatever became of its answer."""
        if not self._request.identity.end or self._ended:
            return
        self._ended = True
        await self._serving.lifecycle.end(
            self._request.key,
            self._request.identity.agent,
            call_seq=self._pinned.seq if self._pinned else 0,
        )
