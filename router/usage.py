"""Token counts of one answer, in either of OpenAI's two forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """What the engine counted for one answer."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int

    @classmethod
    def of_answer(cls, answer: Any) -> Usage | None:
        """From an answer, a chunk of one or an event of the responses API; None without usage."""
        if not isinstance(answer, Mapping):
            return None
        usage = answer.get("usage")
        if usage is None and isinstance(answer.get("response"), Mapping):
            usage = answer["response"].get("usage")
        if not isinstance(usage, Mapping):
            return None
        details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
        return cls(
            _count(usage.get("prompt_tokens", usage.get("input_tokens"))),
            _count(details.get("cached_tokens") if isinstance(details, Mapping) else None),
            _count(usage.get("completion_tokens", usage.get("output_tokens"))),
        )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
