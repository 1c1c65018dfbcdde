"""Segments of a script as text: real text where there is some, common English words elsewhere.

Nobody tells a load generator the endpoint's tokenizer. Each word of the list is one token, with the
space before it, in the byte-pair vocabularies of Qwen, Llama, SmolLM and GPT, so that lengths come
out within a few per cent; what a prompt really took is read from the answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import lru_cache

from pbkv.workload import Segment

_WORDS = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book "
    "eye job word business issue side kind head house service friend father power hour game line "
    "end member law car city community name president team minute idea body information back "
    "parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education food field report paper "
    "court market record value model court letter piece view plan note stage case list table"
).split()
_CHARS_PER_TOKEN = 4
_KEPT_SEGMENTS = 4096


def render(segments: Iterable[Segment]) -> str:
    """Text of about as many tokens as the segments count; equal seeds give equal text."""
    return " ".join(_render(segment) for segment in segments)


@lru_cache(maxsize=_KEPT_SEGMENTS)
def _render(segment: Segment) -> str:
    known = len(segment.text) // _CHARS_PER_TOKEN
    if known >= segment.num_tokens:
        return segment.text[: segment.num_tokens * _CHARS_PER_TOKEN]
    rng = random.Random(segment.seed)
    filling = " ".join(rng.choices(_WORDS, k=segment.num_tokens - known))
    return f"{segment.text} {filling}" if segment.text else filling
