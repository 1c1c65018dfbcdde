"""How much of a workload one measurement runs by default, and on how small a pool."""

from __future__ import annotations

from dataclasses import dataclass

from services.bench.engines import whole_pages


@dataclass(frozen=True, slots=True)
class WorkloadDefaults:
    """``scale`` is the factor on all token counts, ``pool_tokens`` the device KV tokens per
    concurrent workflow at scale 1."""

    workflows: int
    concurrency: int
    scale: float
    pool_tokens: int

    def kv_tokens(self, concurrency: int, scale: float) -> int:
        """The device pool, in whole pages."""
        return whole_pages(self.pool_tokens * concurrency * scale)


DEFAULTS = {
    # 58,500 tokens for 72 workflows is the paper's HoVer point.
    "hover": WorkloadDefaults(workflows=48, concurrency=24, scale=0.3, pool_tokens=812),
    # Where plain LRU finds .46 of the prompt tokens, as in the paper; half of that or double is a
    # cliff away. The longest prompt still fits four tenths of it.
    "swebench": WorkloadDefaults(workflows=20, concurrency=16, scale=0.05, pool_tokens=7_750),
}


def defaults_of(workload: str) -> WorkloadDefaults:
    """Those of ``workload``; of one that is not here, HoVer's. Whoever makes the workflows refuses
    an unknown name."""
    return DEFAULTS.get(workload, DEFAULTS["hover"])
