"""Traces in Mooncake's format as workflows.

One JSON object a line: ``timestamp`` in milliseconds, ``input_length``, ``output_length``, and
``hash_ids``, one for every block of 512 tokens of the prompt, which stands for the block and all
before it. The trace names no sessions; a request whose prompt goes on where an earlier one ended
is taken for the next turn of the same conversation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from pbkv.workload.data import WorkloadDataError
from pbkv.workload.script import ScriptedCall, ScriptedWorkflow, Segment

BLOCK_TOKENS = 512

AGENT = "assistant"


@dataclass(frozen=True, slots=True)
class MooncakeRequest:
    """One line of a trace."""

    sent_at_s: float
    input_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...]

    @property
    def whole_blocks(self) -> tuple[int, ...]:
        """The blocks that are full: a partial last block has a hash of its own."""
        return self.hash_ids[: self.input_tokens // BLOCK_TOKENS]


@dataclass(slots=True)
class _Conversation:
    requests: list[MooncakeRequest] = field(default_factory=list)


def read_mooncake(path: Path) -> list[MooncakeRequest]:
    """The requests of a trace, in order of time. Raises :class:`WorkloadDataError`."""
    requests = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    requests.append(_request(line, f"{path}: line {number}"))
    except OSError as problem:
        raise WorkloadDataError(f"cannot read {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise WorkloadDataError(f"{path} is not text") from None
    if not requests:
        raise WorkloadDataError(f"{path} holds no request")
    requests.sort(key=lambda request: request.sent_at_s)
    return requests


def is_mooncake(path: Path) -> bool:
    """Whether the first line of a file looks like Mooncake's."""
    try:
        with path.open(encoding="utf-8") as lines:
            first = json.loads(next(lines, ""))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and "hash_ids" in first


def mooncake_workflows(
    requests: list[MooncakeRequest], *, scale: float = 1.0
) -> list[ScriptedWorkflow]:
    """Conversations in order of their first request, with their pauses between requests.

    A pause is the time between two requests of one conversation, the answer's own time included,
    which the trace does not tell. Token counts are multiplied by ``scale``.
    """
    return [
        _workflow(f"mooncake-{index}", conversation.requests, scale)
        for index, conversation in enumerate(_conversations(requests))
    ]


def conversation_starts(requests: list[MooncakeRequest]) -> list[float]:
    """When each of :func:`mooncake_workflows` began, in seconds of the trace."""
    return [conversation.requests[0].sent_at_s for conversation in _conversations(requests)]


def _conversations(requests: list[MooncakeRequest]) -> list[_Conversation]:
    conversations: list[_Conversation] = []
    # Last full block of a prompt -> the conversation whose newest prompt ends with it.
    ends: dict[int, _Conversation] = {}
    for request in requests:
        blocks = request.whole_blocks
        conversation = next((ends.pop(b) for b in reversed(blocks) if b in ends), None)
        if conversation is None:
            conversation = _Conversation()
            conversations.append(conversation)
        conversation.requests.append(request)
        if blocks:
            ends[blocks[-1]] = conversation
    return conversations


def _workflow(name: str, requests: list[MooncakeRequest], scale: float) -> ScriptedWorkflow:
    calls = []
    held = 0
    block_tokens = max(1, round(BLOCK_TOKENS * scale))
    for index, request in enumerate(requests):
        blocks = request.whole_blocks
        partial = request.input_tokens - len(blocks) * BLOCK_TOKENS
        following = requests[index + 1] if index + 1 < len(requests) else None
        calls.append(
            ScriptedCall(
                agent=AGENT,
                context=AGENT,
                added=tuple(Segment(f"mooncake/{block}", block_tokens) for block in blocks[held:]),
                instruction=(
                    (Segment(f"{name}/{index}", max(1, round(partial * scale))),) if partial else ()
                ),
                output_tokens=max(1, round(request.output_tokens * scale)),
                # The next prompt repeats the reply inside its own blocks.
                keep_output=False,
                pause_s=following.sent_at_s - request.sent_at_s if following else 0.0,
            )
        )
        held = max(held, len(blocks))
    return ScriptedWorkflow(name, {AGENT: ()}, tuple(calls))


def _request(line: str, where: str) -> MooncakeRequest:
    try:
        fields: Any = json.loads(line)
        request = MooncakeRequest(
            sent_at_s=float(fields["timestamp"]) / 1000.0,
            input_tokens=int(fields["input_length"]),
            output_tokens=int(fields["output_length"]),
            hash_ids=tuple(int(hash_id) for hash_id in fields["hash_ids"]),
        )
    except (ValueError, TypeError, KeyError, OverflowError) as problem:
        raise WorkloadDataError(f"{where} is no request of a Mooncake trace: {problem!r}") from None
    if not isfinite(request.sent_at_s):
        raise WorkloadDataError(f"{where}: the timestamp is no number")
    if request.input_tokens < 1 or len(request.hash_ids) * BLOCK_TOKENS < request.input_tokens:
        raise WorkloadDataError(f"{where}: hash_ids do not cover input_length")
    return request
