"""Device space that requests will need soon, which a prefetch must leave alone.

What a prefetch puts there is evicted again for the running requests, or they evict active cache
instead of it: either way the conservative prefetch displaces, which it promises not to.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from sglang.srt.managers.schedule_policy import CLIP_MAX_NEW_TOKENS

if TYPE_CHECKING:
    from sglang.srt.managers.schedule_batch import Req, ScheduleBatch

    from pbkv.sglang.queueing import WaitingRequests


def needed_tokens(scheduler: Any, batch: ScheduleBatch, waiting: WaitingRequests | None) -> int:
    """Tokens that the scheduler will take of the device beside what it holds now.

    * Output of the running requests, by SGLang's own estimate: what its admission control sets
      aside for them, ``new_token_ratio`` of what each may still write, and a page each for the
      part of a page that is left over.
    * Prompts of the next prefill batch: the rest of a chunked prompt, and of the requests at the
      head of the queue what is not on the device yet. As many of them as there are free places,
      and one more, since the place of whoever finishes next is taken in that same step; together
      no more than one prefill batch computes.

    The same on every rank: nothing here is measured.
    """
    page = scheduler.page_size
    ratio = scheduler.new_token_ratio_tracker.current
    output = sum(_remaining_output(req, ratio) + page for req in batch.reqs)
    chunk = scheduler.chunked_prefill_size or scheduler.max_prefill_tokens
    prompts = 0
    if scheduler.chunked_req is not None:
        prompts += _missing(scheduler.chunked_req, scheduler.chunked_req.extend_end)
    places = max(0, scheduler.max_running_requests - len(batch.reqs)) + 1
    for req in islice(scheduler.waiting_queue, places):
        cached = 0 if waiting is None else waiting.cached_tokens(req)
        prompts += _missing(req, cached) + page
        if prompts >= chunk:
            break
    return int(output) + min(prompts, chunk)


def _remaining_output(req: Req, ratio: float) -> float:
    """As ``PrefillAdder`` estimates it for a running request."""
    share = 1.0 if req.sampling_params.ignore_eos else ratio
    left = max(0, req.sampling_params.max_new_tokens - len(req.output_ids))
    return min(left, CLIP_MAX_NEW_TOKENS) * share


def _missing(req: Req, computed: int) -> int:
    return max(0, len(req.origin_input_ids) + len(req.output_ids) - computed)
