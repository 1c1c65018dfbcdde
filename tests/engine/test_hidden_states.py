"""Hidden states captured in the real engine are those that the stock engine returns.

The engine chunks prompts of more than 256 tokens, mixes decoding rows into prefill batches and
schedules with overlap; the reference prefills each prompt alone and in one piece.
"""

import json
import threading

import numpy as np

from tests.waiting import wait_until


def captured(client, agent):
    path = client.captured / f"{agent}.npy"
    wait_until(path.exists)
    return np.load(path)


def reference(stock, prompt):
    """Stock's hidden states of every prompt token, (tokens, D)."""
    body = stock.body(prompt, max_new_tokens=1) | {"return_hidden_states": True}
    stock.flush()
    answer = stock.http.post("/generate", json=body)
    answer.raise_for_status()
    return np.array(answer.json()["meta_info"]["hidden_states"][0], dtype=np.float32)


def assert_is_last_token(state, rows, num_tokens, *, others_from=0.1):
    assert rows.shape == (num_tokens, len(state))
    distances = np.linalg.norm(rows - state, axis=1) / np.linalg.norm(state)
    assert distances.argmin() == num_tokens - 1
    assert distances[-1] < 0.02
    assert np.sort(distances)[1] > others_from, "other tokens have other states"


def test_a_prompt_in_one_piece(states, stock, prompts):
    prompt = prompts.new(100)
    states.generate(prompt, "w-short", "Short")

    assert_is_last_token(captured(states, "Short"), reference(stock, prompt), 100)


def test_a_prompt_in_four_chunks(states, stock, prompts):
    prompt = prompts.new(900)
    states.generate(prompt, "w-long", "Long")

    assert_is_last_token(captured(states, "Long"), reference(stock, prompt), 900)


def test_a_prompt_that_is_mostly_cached(states, stock, prompts):
    prompt = prompts.new(320)
    states.generate(prompt, "w-cached", "Before")
    assert states.generate(prompt, "w-cached", "Cached").cached_tokens == 304

    assert_is_last_token(captured(states, "Cached"), reference(stock, prompt), 320)


def test_a_batch_of_mixed_lengths_of_which_one_is_cut(states, stock, prompts):
    """Together they are more than a chunk, so that one prompt is split between two batches."""
    asked = [prompts.new(length) for length in (33, 64, 200, 17, 90)]
    bodies = [states.body(p, f"w-mixed-{i}", f"Mixed{i}") for i, p in enumerate(asked)]
    together = {
        "input_ids": [body["input_ids"] for body in bodies],
        "sampling_params": [body["sampling_params"] for body in bodies],
    }
    states.http.post("/generate", json=together).raise_for_status()

    for i, prompt in enumerate(asked):
        rows = reference(stock, prompt)
        assert_is_last_token(captured(states, f"Mixed{i}"), rows, len(prompt))


def test_prompts_prefilled_beside_a_decoding_request(states, stock, prompts):
    decoding = states.body(prompts.new(50), "w-decoding", "Decoding", max_new_tokens=400)
    decoding["stream"] = True
    first_token, asked_for_all = threading.Event(), threading.Event()
    alive_after = []

    def decode():
        with states.http.stream("POST", "/generate", json=decoding) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    first_token.set()
                    if asked_for_all.is_set():
                        alive_after.append(json.loads(line[6:])["meta_info"]["completion_tokens"])

    thread = threading.Thread(target=decode)
    thread.start()
    assert first_token.wait(60)
    asked = [prompts.new(length) for length in (120, 400)]
    for i, prompt in enumerate(asked):
        states.generate(prompt, f"w-beside-{i}", f"Beside{i}", max_new_tokens=1)
    asked_for_all.set()
    thread.join(timeout=120)

    assert alive_after and alive_after[0] < 400, "it decoded all the while"
    for i, prompt in enumerate(asked):
        rows = reference(stock, prompt)
        assert_is_last_token(captured(states, f"Beside{i}"), rows, len(prompt))


def test_every_prompt_of_a_workflow_was_captured_and_no_other(states, prompts):
    before = states.metric("pbkv_hidden_states_total", captured="true")
    states.generate(prompts.new(40))
    states.generate(prompts.new(40), "w-counted", "Counted")
    captured(states, "Counted")

    assert states.metric("pbkv_hidden_states_total", captured="true") == before + 1
    assert states.metric("pbkv_hidden_states_total", captured="false") == 0
