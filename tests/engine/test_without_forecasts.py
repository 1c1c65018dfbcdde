"""Eviction without a predictor. After the tests of the queue, whose engine it shares: these short
workflows would change what that takes for usual."""

import json
import random

from tests.engine.client import Prompts


def evictions(folder):
    return [
        json.loads(line) for line in (folder / "evictions-rank0.jsonl").read_text().splitlines()
    ]


def test_without_forecasts_every_eviction_is_that_of_lae(lae, lae_log, unpredicted):
    """The same trace on both, with calls that end, come back, share a prefix and exceed the pool.

    Everything but the numbers of the nodes, which an engine counts from its start, is compared.
    """
    folders = (lae_log, unpredicted.log.parent)
    lae.flush()
    unpredicted.flush()
    seen = [len(evictions(folder)) for folder in folders]
    replies = [serve_trace(client) for client in (lae, unpredicted)]
    logs = [evictions(folder)[n:] for folder, n in zip(folders, seen, strict=True)]
    for line in logs[0] + logs[1]:
        del line["node"]

    assert logs[0] == logs[1]
    assert {line["reason"] for line in logs[0]} == {"retired", "recency"}
    assert replies[0] == replies[1]


def serve_trace(client):
    rng, prompts = random.Random(11), Prompts(7002)
    shared = prompts.new(160)
    private = {w: shared + prompts.new(900) for w in range(8)}
    cached = []
    for step in range(40):
        workflow = rng.randrange(8)
        length = rng.randrange(200, 1000)
        reply = client.generate(
            private[workflow][:length],
            f"trace-{workflow}",
            rng.choice("ABC"),
            end=step % 6 == 5,
        )
        cached.append(reply.cached_tokens)
    return cached
