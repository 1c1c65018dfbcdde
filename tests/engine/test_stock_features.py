"""What stock SGLang does, it still does with the plug-in."""

import json
import re
import threading

import httpx


def test_replies_are_those_of_stock(stock, lae, prompts):
    shared = prompts.new(300)
    for number in range(4):
        prompt = shared + prompts.new(200 + 100 * number)
        expected = stock.generate(prompt, max_new_tokens=16)
        cold = lae.generate(prompt, f"w{number}", max_new_tokens=16)
        warm = lae.generate(prompt, f"w{number}", max_new_tokens=16)
        assert cold.output_ids == warm.output_ids == expected.output_ids


def test_streaming_chat_through_the_template(lae):
    whole = lae.chat("Name a river.", max_tokens=12, temperature=0).json()
    pieces, usage = [], None
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Name a river."}],
        "max_tokens": 12,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    with lae.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or usage
            pieces += [choice["delta"].get("content") or "" for choice in chunk["choices"]]

    assert "".join(pieces) == whole["choices"][0]["message"]["content"]
    assert usage["prompt_tokens"] == whole["usage"]["prompt_tokens"]


def test_structured_output(lae):
    """A regular expression: the weights are random, so only the grammar can bring this about."""
    answer = lae.chat("Pick.", regex="(left|right)-[0-9]{3}", max_tokens=64, temperature=0)

    assert re.fullmatch("(left|right)-[0-9]{3}", answer.json()["choices"][0]["message"]["content"])


def test_flush_empties_the_cache(lae, prompts):
    prompt = prompts.new(400)
    lae.generate(prompt, "w")
    assert lae.generate(prompt, "w").cached_tokens > 0

    lae.flush()

    assert lae.generate(prompt, "w").cached_tokens == 0


def test_abort_frees_what_the_request_held(lae, prompts):
    """Aborted while decoding: the engine goes on, and the pool can be filled completely again."""
    body = lae.body(prompts.new(600), "aborted", max_new_tokens=2000) | {
        "rid": "abort-me",
        "stream": True,
    }
    first_chunk = threading.Event()
    ended = {}

    def consume():
        with (
            httpx.Client(base_url=lae.url, timeout=120.0, trust_env=False) as http,
            http.stream("POST", "/generate", json=body) as answer,
        ):
            for line in answer.iter_lines():
                first_chunk.set()
                if line.startswith("data: {"):
                    ended.update(json.loads(line[6:]))

    reader = threading.Thread(target=consume)
    reader.start()
    assert first_chunk.wait(60)
    lae.http.post("/abort_request", json={"rid": "abort-me"}).raise_for_status()
    reader.join(60)

    assert not reader.is_alive()
    assert ended["meta_info"]["finish_reason"]["type"] == "abort"
    assert lae.generate(prompts.new(2900), "after").prompt_tokens == 2900
    lae.flush()


def test_an_overlong_prompt_is_refused(lae, prompts):
    answer = lae.http.post("/generate", json=lae.body(prompts.new(9000), "w"))

    assert answer.status_code == 400
    assert "context length" in answer.text


def test_concurrent_requests_share_a_prefix(lae, stock, prompts):
    for client, workflows in ((stock, False), (lae, True)):
        client.flush()
        shared = prompts.new(512)
        client.generate(shared, "seed" if workflows else None)

        replies = at_once(client, [shared + prompts.new(64) for _ in range(6)], workflows)

        assert [reply.cached_tokens for reply in replies] == [512] * 6


def at_once(client, asked, workflows):
    """Replies to prompts that are sent together, each of a workflow of its own if at all."""
    replies = [None] * len(asked)

    def ask(i):
        replies[i] = client.generate(asked[i], f"w{i}" if workflows else None)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return replies
