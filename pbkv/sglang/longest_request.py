"""The longest request that the engine takes: one that its KV pool can admit.

Where the pool is smaller than the context length, SGLang accepts requests of up to the whole pool.
It admits one only where its tokens and a page of overhead fit, though, so what lies between waits
for ever at the head of the queue, and all behind it with it. Refused, its client gets an error.
"""

from __future__ import annotations

from typing import Any

from pbkv.sglang.binding import optional_binding


def limit_requests(result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    """AFTER the scheduler was built, and before it tells its limits to anyone."""
    if optional_binding() is None:
        return
    page = scheduler.page_size
    longest = scheduler.max_total_num_tokens // page * page - 2 * page
    beyond = scheduler.max_req_len - longest
    if beyond > 0:
        scheduler.max_req_len -= beyond
        scheduler.max_req_input_len -= beyond
