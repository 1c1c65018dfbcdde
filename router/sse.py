"""Server-sent events on their way through: forwarded byte for byte, the usage noticed."""

from __future__ import annotations

import re

import orjson

from router.answer import AnswerFacts
from router.usage import Usage

# A usage with content. Inside a JSON string the quotes would be escaped, so text cannot match.
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_EVENT = re.compile(rb".*?(?:\r?\n\r?\n)", re.DOTALL)

_LONGEST_EVENT_BYTES = 8 * 1024 * 1024


class EventFilter:
    """Forwards whole events, so that a broken stream never ends inside one.

    With ``strip_usage`` the event that holds nothing but the usage is left out: the router asked
    for it, the client did not. Events are parsed only if they hold a usage.
    ``facts`` is what was noticed so far.
    """

    def __init__(self, *, strip_usage: bool) -> None:
        self._strip_usage = strip_usage
        self._partial = b""
        self.facts = AnswerFacts()

    def feed(self, chunk: bytes) -> bytes:
        """Bytes to forward after ``chunk`` came."""
        data = self._partial + chunk if self._partial else chunk
        end = max(_after(data, b"\n\n"), _after(data, b"\r\n\r\n"))
        if end == len(data):
            whole, self._partial = data, b""
        elif len(data) - end > _LONGEST_EVENT_BYTES:
            # Not events at all, or nothing one can hold back: let it pass.
            whole, self._partial = data, b""
        else:
            whole, self._partial = data[:end], data[end:]
        self.facts.notice(whole)
        if _USAGE.search(whole) is None:
            return whole
        return self._look(whole)

    def flush(self) -> bytes:
        """What is left at the proper end of the stream."""
        rest, self._partial = self._partial, b""
        return rest

    def _look(self, whole: bytes) -> bytes:
        kept: list[bytes] = []
        position = 0
        for match in _EVENT.finditer(whole):
            position = match.end()
            if not self._take(match.group()):
                kept.append(match.group())
        kept.append(whole[position:])
        return b"".join(kept)

    def _take(self, event: bytes) -> bool:
        """Note the usage of an event; whether the event is to be left out."""
        if _USAGE.search(event) is None:
            return False
        payload = b"".join(
            line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")
        )
        try:
            chunk = orjson.loads(payload)
        except orjson.JSONDecodeError:
            return False
        usage = Usage.of_answer(chunk)
        if usage is None:
            return False
        self.facts.usage = usage
        return self._strip_usage and chunk.get("choices") == []


def _after(data: bytes, separator: bytes) -> int:
    at = data.rfind(separator)
    return at + len(separator) if at >= 0 else 0
