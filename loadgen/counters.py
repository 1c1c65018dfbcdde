"""The engines' own counters of prompt and cached tokens, to hold the answers against."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from loadgen.records import RunRecords
from loadgen.target import Target

# Of the plug-in and, where it is not loaded, of stock SGLang.
_PROMPT = ("pbkv_prompt_tokens_total", "sglang:prompt_tokens_total")
_CACHED = ("pbkv_cached_tokens_total", "sglang:cached_tokens_total")
_TOLERANCE = 0.01
_TIMEOUT = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, slots=True)
class EngineTokens:
    """Tokens since the engines started, over all of them."""

    prompt_tokens: float
    cached_tokens: float
    engines: int

    def since(self, before: EngineTokens) -> EngineTokens:
        return EngineTokens(
            self.prompt_tokens - before.prompt_tokens,
            self.cached_tokens - before.cached_tokens,
            self.engines,
        )


async def read_engines(session: aiohttp.ClientSession, target: Target) -> EngineTokens | None:
    """The counters of all engines behind a router, or of the one engine at the URL.

    None where they are out of reach: another system, a cluster whose pods are not, a firewall.
    """
    urls = await _replica_urls(session, target) or [target.url]
    texts = await asyncio.gather(*(_metrics(session, url) for url in urls))
    found = [_tokens(text) for text in texts if text is not None]
    if not found or len(found) < len(urls) or any(tokens is None for tokens in found):
        return None
    pairs = [tokens for tokens in found if tokens is not None]
    return EngineTokens(sum(p for p, _ in pairs), sum(c for _, c in pairs), len(pairs))


def disagreement(records: RunRecords, engines: EngineTokens | None) -> str:
    """One line that says where answers and counters differ by more than a hundredth; else empty.

    Of all calls of the run, the warm-up included, because the counters include it.
    """
    if engines is None:
        return ""
    sums = {
        "prompt": (sum(call.prompt_tokens or 0 for call in records.calls), engines.prompt_tokens),
        "cached": (sum(call.cached_tokens or 0 for call in records.calls), engines.cached_tokens),
    }
    parts = [
        f"{answers:,} {name} tokens by the answers, {round(counted):,} by the engines' counters"
        for name, (answers, counted) in sums.items()
        if abs(answers - counted) > _TOLERANCE * max(answers, counted)
    ]
    if not parts:
        return ""
    return f"answers and counters disagree: {'; '.join(parts)} (other clients? lost answers?)"


async def _replica_urls(session: aiohttp.ClientSession, target: Target) -> list[str]:
    try:
        async with session.get(f"{target.url}/v1/replicas", timeout=_TIMEOUT) as answer:
            listed = await answer.json(content_type=None) if answer.status == 200 else {}
        return [str(replica["url"]) for replica in listed["data"]]
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
        return []


async def _metrics(session: aiohttp.ClientSession, url: str) -> str | None:
    try:
        # The key is the router's; an engine's metrics want none.
        headers: Mapping[str, str] = {"Authorization": ""}
        async with session.get(f"{url}/metrics", timeout=_TIMEOUT, headers=headers) as answer:
            return await answer.text() if answer.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError):
        return None


def _tokens(text: str) -> tuple[float, float] | None:
    """(prompt, cached) of one exposition; None if it counts neither."""
    sums: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in _PROMPT or sample.name in _CACHED:
                    sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    except ValueError:
        return None
    for prompt, cached in zip(_PROMPT, _CACHED, strict=True):
        if prompt in sums:
            return sums[prompt], sums.get(cached, 0.0)
    return None
