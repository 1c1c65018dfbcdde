"""Reads the engine's own counters before and after a replay."""

from __future__ import annotations

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

POLICY_EVICTED = "pbkv_evicted_tokens_total"
STOCK_EVICTED = "sglang:evicted_tokens_total"


async def evicted_tokens(url: str) -> dict[str, float]:
    """Tokens evicted since the engine started: by reason under the plug-in, else one total.

    ``total`` is the engine's own count of device tokens, in every variant.
    """
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        answer.raise_for_status()
        return parse_evicted(await answer.text())


def parse_evicted(text: str) -> dict[str, float]:
    """Read both counters out of a Prometheus exposition."""
    by_reason: dict[str, float] = {"total": 0.0}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == POLICY_EVICTED:
                reason = sample.labels["reason"]
                by_reason[reason] = by_reason.get(reason, 0.0) + sample.value
            elif sample.name == STOCK_EVICTED:
                by_reason["total"] += sample.value
    return by_reason


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, int]:
    """What was counted in between."""
    return {reason: round(value - before.get(reason, 0.0)) for reason, value in after.items()}
