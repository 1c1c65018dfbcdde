"""A small client of one engine, and prompts of known length."""

from __future__ import annotations

import random
from dataclasses import dataclass

import httpx


@dataclass(frozen=True)
class Reply:
    output_ids: list[int]
    prompt_tokens: int
    cached_tokens: int
    device_tokens: int
    host_tokens: int


class EngineClient:
    """Speaks to one engine. ``generate`` is greedy, so that replies can be compared."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=120.0, trust_env=False)

    def close(self) -> None:
        self.http.close()

    def generate(self, ids, workflow=None, agent="A", max_new_tokens=4, **fields) -> Reply:
        answer = self.http.post(
            "/generate", json=self.body(ids, workflow, agent, max_new_tokens, **fields)
        )
        answer.raise_for_status()
        meta = answer.json()["meta_info"]
        tiers = meta.get("cached_tokens_details") or {"device": meta["cached_tokens"], "host": 0}
        return Reply(
            answer.json()["output_ids"],
            meta["prompt_tokens"],
            meta["cached_tokens"],
            tiers["device"],
            tiers["host"],
        )

    @staticmethod
    def body(ids, workflow=None, agent="A", max_new_tokens=4, **fields):
        sampling = {"max_new_tokens": max_new_tokens, "temperature": 0, "ignore_eos": True}
        if workflow is not None:
            invocation = {"workflow": workflow, "agent": agent, **fields}
            sampling["custom_params"] = {"pbkv": invocation}
        return {"input_ids": list(ids), "sampling_params": sampling}

    def chat(self, text, **fields):
        body = {"model": "tiny", "messages": [{"role": "user", "content": text}], **fields}
        return self.http.post("/v1/chat/completions", json=body)

    def flush(self) -> None:
        self.http.post("/flush_cache", params={"timeout": 30}).raise_for_status()

    def metric(self, name, **labels) -> float:
        """Sum of the samples of ``name`` that carry ``labels``."""
        from prometheus_client.parser import text_string_to_metric_families

        text = self.http.get("/metrics").text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


class Prompts:
    """Prompts that no test used before: numbers of one seeded generator."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def new(self, num_tokens: int) -> list[int]:
        return [self._rng.randrange(8, 1900) for _ in range(num_tokens)]
