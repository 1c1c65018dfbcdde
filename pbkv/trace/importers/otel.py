"""OpenTelemetry spans that follow the GenAI semantic conventions (``gen_ai.*``).

Two forms: OTLP/JSON, as the collector's file exporter writes it (a ``resourceSpans`` object per
line), and the SDK's own ``span.to_json()``. A span whose ``gen_ai.operation.name`` is a model call
is a call; its agent is the ``gen_ai.agent.name`` of the span or of the nearest span above it. Its
workflow is the ``gen_ai.conversation.id`` found the same way, else the trace: as the router reads
it from a request's baggage. LangSmith's own export to OpenTelemetry names neither: there the agent
is the LangGraph node, and an error is an event of a span whose status says OK.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pbkv.errors import InvalidTrace
from pbkv.invocation import UNNAMED_AGENT
from pbkv.trace.importers.calls import ForeignCall, records_of
from pbkv.trace.importers.fields import at, error_name, json_objects, name, seconds, tokens
from pbkv.trace.record import InvocationRecord

_MODEL_CALLS = ("chat", "text_completion", "generate_content")
_AGENTS = (
    "gen_ai.agent.name",
    "langsmith.metadata.lc_agent_name",
    "langsmith.metadata.langgraph_node",
)
_CONVERSATIONS = ("gen_ai.conversation.id", "langsmith.metadata.thread_id")
_VALUES = ("stringValue", "intValue", "doubleValue", "boolValue")


@dataclass(frozen=True, slots=True)
class Span:
    """One span, of either form."""

    place: str
    trace_id: str
    span_id: str
    parent_id: str
    start_s: float
    end_s: float
    attributes: Mapping[str, Any]
    error: str
    """Its name; empty for a span that succeeded."""


def import_otel(path: Path, *, tenant: str = "") -> list[InvocationRecord]:
    """The records in a file of spans. Raises :class:`InvalidTrace` with place and field."""
    spans = {(span.trace_id, span.span_id): span for span in _spans(path)}
    calls = [
        _call(span, spans)
        for span in spans.values()
        if span.attributes.get("gen_ai.operation.name") in _MODEL_CALLS
    ]
    # A trace ends with its root. When a conversation ends no span tells.
    ends = {span.trace_id: span.end_s for span in spans.values() if not span.parent_id}
    return records_of(calls, ends, tenant=tenant)


def _call(span: Span, spans: Mapping[tuple[str, str], Span]) -> ForeignCall:
    own = span.attributes
    first_chunk_s = own.get("gen_ai.response.time_to_first_chunk")
    return ForeignCall(
        workflow=_inherited(span, spans, *_CONVERSATIONS) or span.trace_id,
        agent=_inherited(span, spans, *_AGENTS) or UNNAMED_AGENT,
        application=_inherited(span, spans, "gen_ai.workflow.name") or name(own["service.name"]),
        sent_at_s=span.start_s,
        finished_at_s=span.end_s,
        first_token_at_s=span.start_s + first_chunk_s
        if isinstance(first_chunk_s, int | float)
        else None,
        request_id=name(own.get("gen_ai.response.id")),
        model=name(own.get("gen_ai.response.model"), own.get("gen_ai.request.model")),
        prompt_tokens=tokens(
            span.place,
            "gen_ai.usage.input_tokens",
            own.get("gen_ai.usage.input_tokens"),
            own.get("gen_ai.usage.prompt_tokens"),
        ),
        cached_tokens=tokens(
            span.place,
            "gen_ai.usage.cache_read.input_tokens",
            own.get("gen_ai.usage.cache_read.input_tokens"),
        ),
        completion_tokens=tokens(
            span.place,
            "gen_ai.usage.output_tokens",
            own.get("gen_ai.usage.output_tokens"),
            own.get("gen_ai.usage.completion_tokens"),
        ),
        finish_reason=name(at(own.get("gen_ai.response.finish_reasons"), 0)),
        error=error_name(own.get("error.type")) or span.error,
    )


def _inherited(span: Span, spans: Mapping[tuple[str, str], Span], *attributes: str) -> str:
    """The first of the attributes that the span has, or the nearest one above it."""
    seen: set[str] = set()
    above: Span | None = span
    while above is not None and above.span_id not in seen:
        found = name(*map(above.attributes.get, attributes))
        if found:
            return found
        seen.add(above.span_id)
        above = spans.get((span.trace_id, above.parent_id))
    return ""


def _spans(path: Path) -> Iterator[Span]:
    for place, value in json_objects(path):
        if "resourceSpans" in value:
            yield from _otlp_spans(place, value)
        elif "context" in value:
            yield _sdk_span(place, value)
        else:
            raise InvalidTrace(f"{place}: neither resourceSpans (OTLP) nor a span of the SDK")


def _otlp_spans(place: str, value: Mapping[str, Any]) -> Iterator[Span]:
    for resource in value["resourceSpans"] or ():
        service = _attributes(at(resource, "resource", "attributes")).get("service.name")
        for scope in at(resource, "scopeSpans") or ():
            for span in at(scope, "spans") or ():
                attributes = {"service.name": service, **_attributes(at(span, "attributes"))}
                code = at(span, "status", "code")
                exceptions = [
                    _attributes(at(event, "attributes")).get("exception.type")
                    for event in at(span, "events") or ()
                    if at(event, "name") == "exception"
                ]
                yield Span(
                    place=place,
                    trace_id=_id(place, "traceId", at(span, "traceId")),
                    span_id=_id(place, "spanId", at(span, "spanId")),
                    parent_id=name(at(span, "parentSpanId")),
                    start_s=_nanoseconds(place, "startTimeUnixNano", span),
                    end_s=_nanoseconds(place, "endTimeUnixNano", span),
                    attributes=attributes,
                    error=_error(code in (2, "STATUS_CODE_ERROR"), exceptions),
                )


def _sdk_span(place: str, span: Mapping[str, Any]) -> Span:
    service = at(span, "resource", "attributes", "service.name")
    return Span(
        place=place,
        trace_id=_id(place, "context.trace_id", at(span, "context", "trace_id")),
        span_id=_id(place, "context.span_id", at(span, "context", "span_id")),
        parent_id=name(span.get("parent_id")).removeprefix("0x"),
        start_s=seconds(place, "start_time", span.get("start_time")),
        end_s=seconds(place, "end_time", span.get("end_time")),
        attributes={"service.name": service, **(span.get("attributes") or {})},
        error=_error(
            at(span, "status", "status_code") == "ERROR",
            [
                at(event, "attributes", "exception.type")
                for event in span.get("events") or ()
                if at(event, "name") == "exception"
            ],
        ),
    )


def _error(failed: bool, exceptions: Sequence[Any]) -> str:
    """By the last of the span's exceptions, which is the one that got out of it."""
    if exceptions:
        return error_name(exceptions[-1]) or "error"
    return error_name(failed)


def _attributes(pairs: Any) -> dict[str, Any]:
    """OTLP's list of keys and typed values."""
    return {
        pair["key"]: _value(pair.get("value"))
        for pair in pairs or ()
        if isinstance(pair, dict) and isinstance(pair.get("key"), str)
    }


def _value(typed: Any) -> Any:
    if not isinstance(typed, dict):
        return None
    if "arrayValue" in typed:
        return [_value(item) for item in at(typed, "arrayValue", "values") or ()]
    return next((typed[kind] for kind in _VALUES if kind in typed), None)


def _id(place: str, field: str, value: Any) -> str:
    found = name(value).removeprefix("0x")
    if not found:
        raise InvalidTrace(f"{place}: {field}: is missing")
    return found


def _nanoseconds(place: str, field: str, span: Any) -> float:
    value = at(span, field)
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTrace(f"{place}: {field}: must be nanoseconds since 1970")
    return value / 1e9
