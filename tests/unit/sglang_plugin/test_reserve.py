"""What a prefetch leaves to requests, from the numbers that a scheduler has."""

from types import SimpleNamespace

import pytest

pytest.importorskip("sglang")

from pbkv.sglang.reserve import needed_tokens

PAGE = 16


def request(prompt=100, output=0, max_new=50, *, ignore_eos=True, extend_end=0):
    return SimpleNamespace(
        origin_input_ids=[0] * prompt,
        output_ids=[0] * output,
        sampling_params=SimpleNamespace(max_new_tokens=max_new, ignore_eos=ignore_eos),
        extend_end=extend_end,
    )


def scheduler(waiting=(), chunked=None, chunk=512, max_running=4, ratio=0.5):
    return SimpleNamespace(
        page_size=PAGE,
        new_token_ratio_tracker=SimpleNamespace(current=ratio),
        chunked_prefill_size=chunk,
        max_prefill_tokens=1024,
        max_running_requests=max_running,
        chunked_req=chunked,
        waiting_queue=list(waiting),
    )


def batch(*requests):
    return SimpleNamespace(reqs=list(requests))


class Cached:
    """Every waiting request has this many tokens on the device."""

    def __init__(self, tokens):
        self._tokens = tokens

    def cached_tokens(self, req):
        return self._tokens


def test_output_is_what_admission_sets_aside_and_a_page_each():
    running = batch(request(output=10), request(output=10, ignore_eos=False))

    assert needed_tokens(scheduler(), running, None) == 40 + 20 + 2 * PAGE


def test_a_request_past_its_limit_needs_no_less_than_nothing():
    assert needed_tokens(scheduler(), batch(request(output=60)), None) == PAGE


def test_the_head_of_the_queue_counts_as_far_as_places_may_come_free():
    """Three of four places are taken: one is free, and one more may be after this step."""
    running = batch(*(request(output=50) for _ in range(3)))
    waiting = [request(prompt=100) for _ in range(5)]

    assert needed_tokens(scheduler(waiting), running, None) == 3 * PAGE + 2 * (100 + PAGE)


def test_what_a_waiting_request_has_on_the_device_is_not_needed_again():
    running = batch(*(request(output=50) for _ in range(4)))

    needed = needed_tokens(scheduler([request(prompt=100)]), running, Cached(96))

    assert needed == 4 * PAGE + 4 + PAGE


def test_no_more_than_one_prefill_batch_is_counted():
    waiting = [request(prompt=400) for _ in range(5)]

    assert needed_tokens(scheduler(waiting), batch(), None) == 512
    assert needed_tokens(scheduler(waiting, chunk=None), batch(), None) == 1024


def test_the_rest_of_a_chunked_prompt_comes_first():
    chunked = request(prompt=700, extend_end=512)

    assert needed_tokens(scheduler(chunked=chunked), batch(), None) == 188
