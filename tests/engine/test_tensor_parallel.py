"""Two tensor-parallel ranks evict alike, checked by SGLang's own rank-consensus checker too."""

import json

from pbkv.events import EventKind, WorkflowEvent
from pbkv.keys import events_key
from tests.waiting import wait_until


def test_both_ranks_evict_the_same_nodes_in_the_same_order(pair, redis_server, prompts):
    kept = prompts.new(900)
    pair.generate(kept, "kept")
    wait_until(lambda: pair.metric("pbkv_forecasts_total", outcome="applied") > 0)
    for i in range(10):
        pair.generate(prompts.new(900), f"w{i}", end=i % 3 == 0)
        if i % 3 == 1:
            event = WorkflowEvent(EventKind.TERMINATE, f"w{i}", at_s=0.0)
            redis_server.client.xadd(events_key("pair"), event.to_fields())

    logs = [log.read_text().splitlines() for log in pair.logs]

    assert logs[0] == logs[1]
    reasons = {json.loads(line)["reason"] for line in logs[0]}
    assert reasons >= {"retired", "host", "score"}
    assert pair.generate(kept, "kept").prompt_tokens == 900
