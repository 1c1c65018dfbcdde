"""Reads the engine's own counters before and after a replay."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

POLICY_EVICTED = "pbkv_evicted_tokens_total"
STOCK_EVICTED = "sglang:evicted_tokens_total"


@dataclass(frozen=True, slots=True)
class Evicted:
    """Tokens evicted since the engine started.

    ``by_reason`` is empty for a stock engine, which gives none. ``device_total`` is the engine's
    own count of tokens that left the device, in every variant.
    """

    by_reason: dict[str, int]
    device_total: int

    def since(self, before: Evicted) -> Evicted:
        """What was evicted after ``before``."""
        return Evicted(
            {
                reason: tokens - before.by_reason.get(reason, 0)
                for reason, tokens in self.by_reason.items()
            },
            self.device_total - before.device_total,
        )


async def evicted_tokens(url: str) -> Evicted:
    """Read the counters of the engine at ``url``."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        answer.raise_for_status()
        return parse_evicted(await answer.text())


def parse_evicted(text: str) -> Evicted:
    """Read both counters out of a Prometheus exposition."""
    by_reason: dict[str, int] = {}
    device_total = 0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == POLICY_EVICTED:
                reason = sample.labels["reason"]
                by_reason[reason] = by_reason.get(reason, 0) + round(sample.value)
            elif sample.name == STOCK_EVICTED:
                device_total += round(sample.value)
    return Evicted(by_reason, device_total)
