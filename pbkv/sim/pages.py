"""Prompts as chains of page identities, without tokens.

A page's id stands for its tokens *and everything before it*, as block hashes of serving systems do.
So two prompts that share the id at page i share all pages up to i, and a node of a radix tree is
compared with a prompt by one look at its last page.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from pbkv.workload import Segment

Piece = tuple[int, int, int]
"""Part of a page: segment, offset in the segment, number of tokens."""


def segment_id(seed: str) -> int:
    """A number for a segment's seed, the same in every process."""
    return int.from_bytes(blake2b(seed.encode(), digest_size=7).digest(), "little")


class PageChain:
    """Text that only grows: the ids of its whole pages, and what the last page holds so far.

    ``ids`` is appended to and never changed otherwise, so that whoever keeps the list and the
    number of pages it had keeps a valid prompt.
    """

    __slots__ = ("_last", "_tail", "_tail_tokens", "ids", "page_size")

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.ids: list[int] = []
        self._last = 0
        self._tail: tuple[Piece, ...] = ()
        self._tail_tokens = 0

    @classmethod
    def of(cls, segments: Iterable[Segment], page_size: int) -> PageChain:
        """The text of ``segments``."""
        chain = cls(page_size)
        chain.add(segments)
        return chain

    def add(self, segments: Iterable[Segment]) -> None:
        """Append whole segments."""
        for segment in segments:
            self.extend(segment_id(segment.seed), segment.num_tokens)

    @property
    def num_tokens(self) -> int:
        return len(self.ids) * self.page_size + self._tail_tokens

    def copy(self) -> PageChain:
        """The same text, growing on its own."""
        chain = PageChain(self.page_size)
        chain.ids = self.ids.copy()
        chain._last, chain._tail, chain._tail_tokens = self._last, self._tail, self._tail_tokens
        return chain

    def extend(self, segment: int, num_tokens: int) -> None:
        """Append the first ``num_tokens`` tokens of a segment, see :func:`segment_id`."""
        page = self.page_size
        offset = 0
        if self._tail_tokens:
            offset = min(page - self._tail_tokens, num_tokens)
            self._tail = (*self._tail, (segment, 0, offset))
            self._tail_tokens += offset
            if self._tail_tokens < page:
                return
            self._last = hash((self._last, self._tail))
            self.ids.append(self._last)
            self._tail, self._tail_tokens = (), 0
        whole = (num_tokens - offset) // page
        if whole:
            # Pages inside one segment are numbered on from the first: one hash for all of them.
            first = hash((self._last, segment, offset))
            self.ids.extend(range(first, first + whole))
            self._last = first + whole - 1
            offset += whole * page
        rest = num_tokens - offset
        if rest:
            self._tail, self._tail_tokens = ((segment, offset, rest),), rest
