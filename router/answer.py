"""What a trace tells of an answer: the engine's name of the request and why the answer ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from pbkv.invocation import MAX_NAME_CHARS
from router.usage import Usage

# Inside a JSON string the quotes would be escaped, so generated text cannot match either.
_ID = re.compile(rb'"id"\s*:\s*"([^"\\]{1,512})"')
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"([A-Za-z_]{1,64})"')


@dataclass(slots=True)
class AnswerFacts:
    """Noticed while an answer passes; all empty for one that says nothing."""

    request_id: str = ""
    finish_reason: str = ""
    usage: Usage | None = None

    def notice(self, events: bytes) -> None:
        """Whole events of a stream, in order."""
        if not self.request_id and (found := _ID.search(events)) is not None:
            self.request_id = found.group(1).decode(errors="replace")
        for found in _FINISH.finditer(events):
            self.finish_reason = found.group(1).decode()

    @classmethod
    def of_body(cls, body: bytes) -> AnswerFacts:
        """From the body of an answer that was not streamed."""
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            return cls()
        if not isinstance(answer, dict):
            return cls()
        return cls(_text(answer.get("id")), _finish_reason(answer), Usage.of_answer(answer))


def _finish_reason(answer: dict[str, Any]) -> str:
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return _text(choices[0].get("finish_reason"))
    return _text(answer.get("status"))


def _text(value: Any) -> str:
    return value[:MAX_NAME_CHARS] if isinstance(value, str) else ""
