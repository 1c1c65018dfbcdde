"""How much of a victim goes: the whole node, or no more pages of its end than are needed.

A node holds what one call added, often hundreds of tokens, and an allocation may lack only a few.
What a prompt reuses it reuses from its start, so the end of a node can go and its beginning stays
of use. Whole nodes are what stock SGLang and the paper evict.
"""

from __future__ import annotations

from enum import StrEnum

from pbkv.errors import SettingsError

LEAST_SHARE = 1 / 256
"""Of the device pool, the least that is cut off a node: so that decode steps, which lack a page at
a time, do not cut at every step, and the tree does not fall into crumbs."""


class EvictionUnit(StrEnum):
    """What eviction takes at a time."""

    NODE = "node"
    PAGE = "page"

    @classmethod
    def of(cls, name: str) -> EvictionUnit:
        """The unit of that name. Raises :class:`SettingsError` listing the choices."""
        try:
            return cls(name)
        except ValueError:
            raise SettingsError(
                f"unknown eviction unit {name!r}; choose one of: {', '.join(cls)}"
            ) from None

    def kept_tokens(
        self, node_tokens: int, needed_tokens: int, *, pool_tokens: int, page_size: int
    ) -> int:
        """Tokens at the beginning of a victim that stay, in whole pages; 0 if all of it goes.

        ``needed_tokens`` are still to be freed, ``pool_tokens`` is the size of the device pool.
        """
        if self is EvictionUnit.NODE:
            return 0
        least = max(needed_tokens, int(LEAST_SHARE * pool_tokens), 1)
        kept = node_tokens - least
        return kept // page_size * page_size if kept > 0 else 0
