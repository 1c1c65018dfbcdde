"""Reads the engine's own counters before and after a replay."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

POLICY_EVICTED = "pbkv_evicted_tokens_total"
STOCK_EVICTED = "sglang:evicted_tokens_total"
PREFETCHED = "pbkv_prefetched_tokens_total"
PREFETCH_USED = "pbkv_prefetch_used_tokens_total"


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Tokens since the engine started.

    ``evicted_by_reason`` is empty for a stock engine, which gives none. ``evicted_device`` is the
    engine's own count of tokens that left the device, in every variant. ``prefetched`` came onto
    the device ahead of any request, ``prefetch_used`` of them were read by one.
    """

    evicted_by_reason: dict[str, int]
    evicted_device: int
    prefetched: int = 0
    prefetch_used: int = 0

    def since(self, before: EngineCounters) -> EngineCounters:
        """What happened after ``before``."""
        return EngineCounters(
            {
                reason: tokens - before.evicted_by_reason.get(reason, 0)
                for reason, tokens in self.evicted_by_reason.items()
            },
            self.evicted_device - before.evicted_device,
            self.prefetched - before.prefetched,
            self.prefetch_used - before.prefetch_used,
        )


async def read_counters(url: str) -> EngineCounters:
    """Read the counters of the engine at ``url``."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        answer.raise_for_status()
        return parse_counters(await answer.text())


def parse_counters(text: str) -> EngineCounters:
    """Read the counters out of a Prometheus exposition."""
    by_reason: dict[str, int] = {}
    totals = dict.fromkeys((STOCK_EVICTED, PREFETCHED, PREFETCH_USED), 0)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == POLICY_EVICTED:
                reason = sample.labels["reason"]
                by_reason[reason] = by_reason.get(reason, 0) + round(sample.value)
            elif sample.name in totals:
                totals[sample.name] += round(sample.value)
    return EngineCounters(
        by_reason, totals[STOCK_EVICTED], totals[PREFETCHED], totals[PREFETCH_USED]
    )
