"""Measures the calls that a framework makes, where they leave the process: at its HTTP client.

The plan's part in a call is done here too, alike for all frameworks: the pause of the tool before
it, and the length of its answer.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from loadgen.events import DONE, EventReader
from loadgen.programs.plan import Plan, current_plan
from loadgen.records import TOKENS, CallRecord, ErrorKind, token_count

_LIBRARIES = ("httpx", "httpx2")
_PATH = "/chat/completions"
_BY_STATUS = {401: ErrorKind.KEY, 403: ErrorKind.KEY, 429: ErrorKind.LIMITED}
_BY_STATUS[503] = ErrorKind.UNAVAILABLE
# OpenAI's library may repeat such calls by itself, before its application hears of it.
_TRIED_AGAIN = (
    ErrorKind.UNREACHABLE,
    ErrorKind.TIMEOUT,
    ErrorKind.TLS,
    ErrorKind.LIMITED,
    ErrorKind.UNAVAILABLE,
    ErrorKind.CLIENT,
    ErrorKind.SERVER,
)

Record = Callable[[CallRecord], None]


def observe_clients(record: Record, *, exact_lengths: bool) -> None:
    """Change ``send`` of the clients of both libraries, outside of what adds the identity."""
    for name in _LIBRARIES:
        if importlib.util.find_spec(name) is not None:
            watch = _Watch(importlib.import_module(name), record, exact_lengths)
            library = watch.library
            library.AsyncClient.send = _sending_async(library.AsyncClient.send, watch)
            library.Client.send = _sending(library.Client.send, watch)


def _sending_async(original: Any, watch: _Watch) -> Any:
    @functools.wraps(original)
    async def send(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        call = watch.call(request)
        if call is None:
            return await original(self, request, *args, **options)
        await asyncio.sleep(call.pause_s)
        with watch.sending(call):
            response = await original(self, call.request, *args, **options)
        return watch.answered(call, response, streamed=bool(options.get("stream")))

    return send


def _sending(original: Any, watch: _Watch) -> Any:
    @functools.wraps(original)
    def send(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        call = watch.call(request)
        if call is None:
            return original(self, request, *args, **options)
        # CrewAI calls from threads of its own.
        time.sleep(call.pause_s)
        with watch.sending(call):
            response = original(self, call.request, *args, **options)
        return watch.answered(call, response, streamed=bool(options.get("stream")))

    return send


@dataclass(frozen=True, slots=True)
class _Watch:
    """What one library's clients have in common."""

    library: Any
    record: Record
    exact_lengths: bool

    def call(self, request: Any) -> _Call | None:
        """The call that ``request`` is; None if it is none of a program's."""
        plan = current_plan.get()
        if plan is None or not request.url.path.endswith(_PATH):
            return None
        retries = _retries(request)
        first_sent_s = None
        if retries and plan.sent:
            pause_s, output_tokens = 0.0, plan.repeat_call()
            first_sent_s = plan.sent_s
        else:
            pause_s, output_tokens = plan.begin_call()
        if output_tokens is not None:
            request = _with_length(self.library, request, output_tokens, self.exact_lengths)
        return _Call(request, plan, self.record, pause_s, retries, first_sent_s)

    @contextmanager
    def sending(self, call: _Call) -> Iterator[None]:
        """Until the head of the answer is there."""
        call.send()
        try:
            yield
        except self.library.TimeoutException:
            call.end(ErrorKind.TIMEOUT)
            raise
        except self.library.TransportError as problem:
            call.detail = f"{type(problem).__name__}: {problem}"[:200]
            tls = "CERTIFICATE" in str(problem).upper() or "SSL" in str(problem).upper()
            call.end(ErrorKind.TLS if tls else ErrorKind.UNREACHABLE)
            raise
        except BaseException:
            call.end(ErrorKind.CUT)
            raise

    def answered(self, call: _Call, response: Any, *, streamed: bool) -> Any:
        """The response, with an eye on its stream."""
        call.replica = response.headers.get("X-PBKV-Replica", "")
        if response.status_code != 200:
            server = ErrorKind.SERVER if response.status_code >= 500 else ErrorKind.CLIENT
            call.detail = f"HTTP {response.status_code}"
            call.end(_BY_STATUS.get(response.status_code, server))
        elif streamed:
            response.stream = _stream(self.library, response.stream, call)
        else:
            call.take(response.content)
            call.end()
        return response


def _retries(request: Any) -> int:
    """How often OpenAI's library has sent this call before, after a failure."""
    told = request.headers.get("x-stainless-retry-count", "")
    return int(told) if told.isdecimal() else 0


def _with_length(library: Any, request: Any, tokens: int, exact: bool) -> Any:
    """The same request for an answer of ``tokens`` tokens."""
    body = json.loads(request.content)
    body.pop("max_completion_tokens", None)
    body["max_tokens"] = tokens
    if exact:
        body["ignore_eos"] = True
    headers = [(k, v) for k, v in request.headers.multi_items() if k.lower() != "content-length"]
    return library.Request(
        request.method,
        request.url,
        headers=headers,
        content=json.dumps(body).encode(),
        extensions=request.extensions,
    )


@dataclass(slots=True)
class _Call:
    """One call under way. Times are those of the machine's monotonic clock."""

    request: Any
    plan: Plan
    record: Record
    pause_s: float
    retries: int = 0
    first_sent_s: float | None = None
    sent_s: float = 0.0
    first_token_s: float | None = None
    usage: dict[str, Any] | None = None
    replica: str = ""
    due_s: float = 0.0
    finished: bool = False
    over: bool = False
    detail: str = ""
    step: int = 0
    events: EventReader = field(default_factory=EventReader)

    def __post_init__(self) -> None:
        # When the tool before it is done; what passes until it is sent is the generator's lag.
        self.due_s = time.perf_counter() + self.pause_s

    def send(self) -> None:
        """It is sent now. A call that is repeated began when it was sent first."""
        self.step = self.plan.sent
        now_s = time.perf_counter()
        self.sent_s = self.plan.sent_s = now_s if self.first_sent_s is None else self.first_sent_s

    def receive(self, received: bytes) -> None:
        """A piece of a stream."""
        for data in self.events.feed(received):
            if data == DONE:
                self.finished = True
            else:
                self.take(data)

    def take(self, data: bytes) -> None:
        """An event of a stream, or a whole answer."""
        try:
            chunk = json.loads(data)
            usage = chunk.get("usage")
            deltas = [choice.get("delta") or {} for choice in chunk.get("choices") or ()]
            said = any(delta.get(name) for delta in deltas for name in TOKENS)
        except (ValueError, TypeError, AttributeError):
            return
        self.usage = usage if isinstance(usage, dict) else self.usage
        if said and self.first_token_s is None:
            self.first_token_s = time.perf_counter()

    def end(self, error: ErrorKind | None = None) -> None:
        """Record it, once."""
        if self.over:
            return
        self.over = True
        usage = self.usage or {}
        details = usage.get("prompt_tokens_details")
        details = details if isinstance(details, dict) else {}
        headers = self.request.headers
        made = CallRecord(
            workflow_id=headers.get("X-Workflow-ID", ""),
            agent=headers.get("X-Agent-Name", ""),
            step=self.step,
            due_s=min(self.due_s, self.sent_s),
            sent_s=self.sent_s,
            finished_s=time.perf_counter(),
            first_token_s=self.first_token_s,
            prompt_tokens=token_count(usage.get("prompt_tokens")),
            cached_tokens=token_count(details.get("cached_tokens")),
            output_tokens=token_count(usage.get("completion_tokens")),
            retries=self.retries,
            replica=self.replica,
            error=error,
            detail=self.detail if error else "",
        )
        if error in _TRIED_AGAIN:
            self.plan.failed = partial(self.record, made)
        else:
            self.record(made)


def _stream(library: Any, inner: Any, call: _Call) -> Any:
    """``inner``, watched. Its base classes are those of the library in use."""

    @contextmanager
    def reading() -> Iterator[None]:
        try:
            yield
        except library.TimeoutException:
            call.end(ErrorKind.TIMEOUT)
            raise
        except library.TransportError as problem:
            call.detail = f"{type(problem).__name__}: {problem}"[:200]
            call.end(ErrorKind.BROKEN_STREAM)
            raise

    class AsyncWatched(library.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            with reading():
                async for received in inner:
                    call.receive(received)
                    yield received
            call.end(None if call.finished else ErrorKind.BROKEN_STREAM)

        async def aclose(self) -> None:
            # OpenAI's library reads no further than the end mark.
            call.end(None if call.finished else ErrorKind.CUT)
            await inner.aclose()

    class Watched(library.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            with reading():
                for received in inner:
                    call.receive(received)
                    yield received
            call.end(None if call.finished else ErrorKind.BROKEN_STREAM)

        def close(self) -> None:
            call.end(None if call.finished else ErrorKind.CUT)
            inner.close()

    return AsyncWatched() if isinstance(inner, library.AsyncByteStream) else Watched()
