"""Measures what prefill costs in decode steps on this machine, for this model.

On the GPUs of the paper 1,000 tokens of prefill cost about 24 decode steps. Where a model on a
CPU is far from that, hit rate cannot show in latency, so every report says what it was.
"""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass

import aiohttp
import orjson

_PREFILL_TOKENS = 1000
_DECODE_STEPS = 32
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Proportion:
    """Seconds of 1,000 tokens of prefill, and of one decode step of a single sequence."""

    prefill_1000_s: float
    decode_step_s: float

    @property
    def steps_per_1000_tokens(self) -> float:
        return self.prefill_1000_s / self.decode_step_s


async def measure_proportion(url: str, kv_tokens: int) -> Proportion:
    """Median of a few tries with one sequence, prompts never seen before.

    A pool of ``kv_tokens`` that does not hold 1,000 of them is measured with what it holds.
    """
    rng = random.Random(0)
    num_tokens = max(1, min(_PREFILL_TOKENS, kv_tokens - 2 * _DECODE_STEPS))
    prefill: list[float] = []
    step: list[float] = []
    async with aiohttp.ClientSession() as session:
        for _ in range(_TRIES):
            ids = [rng.randrange(8, 1000) for _ in range(num_tokens)]
            first_s, total_s = await _timed(session, url, ids)
            prefill.append(first_s * _PREFILL_TOKENS / num_tokens)
            step.append((total_s - first_s) / (_DECODE_STEPS - 1))
    return Proportion(statistics.median(prefill), statistics.median(step))


async def _timed(session: aiohttp.ClientSession, url: str, ids: list[int]) -> tuple[float, float]:
    sampling = {"max_new_tokens": _DECODE_STEPS, "temperature": 0, "ignore_eos": True}
    body = orjson.dumps({"input_ids": ids, "sampling_params": sampling, "stream": True})
    headers = {"Content-Type": "application/json"}
    sent_s = time.perf_counter()
    first_s = 0.0
    async with session.post(f"{url}/generate", data=body, headers=headers) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            if line.startswith(b"data: {"):
                first_s = first_s or time.perf_counter()
    return first_s - sent_s, time.perf_counter() - sent_s
