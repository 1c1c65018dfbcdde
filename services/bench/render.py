"""Turns the segments of a script into the token ids of a model."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from pbkv.workload import Segment

_SHARED_SEGMENTS = 4096


class SegmentRenderer:
    """Token ids for segments: real text through the model's tokenizer, the rest synthetic.

    Synthetic ids are drawn uniformly from the vocabulary by the segment's seed, above the special
    tokens that tokenizers keep at the start of theirs.
    """

    def __init__(self, model_path: Path) -> None:
        config = json.loads((model_path / "config.json").read_text())
        self._tokenizer = Tokenizer.from_file(str(model_path / "tokenizer.json"))
        self._low, self._high = 8, min(config["vocab_size"], self._tokenizer.get_vocab_size())
        self._render_cached = lru_cache(maxsize=_SHARED_SEGMENTS)(self._render)

    def ids(self, segments: tuple[Segment, ...]) -> list[int]:
        """Ids of all segments, one after the other."""
        return [token for segment in segments for token in self._render_cached(segment)]

    def _render(self, segment: Segment) -> tuple[int, ...]:
        ids: list[int] = []
        if segment.text:
            ids = self._tokenizer.encode(segment.text, add_special_tokens=False).ids
        rng = random.Random(segment.seed)
        missing = segment.num_tokens - len(ids)
        ids = ids + [rng.randrange(self._low, self._high) for _ in range(missing)]
        return tuple(ids[: segment.num_tokens])
