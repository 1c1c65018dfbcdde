"""Lifecycle events reach the policy through the replica's Redis stream."""

import pytest

from pbkv.events import EventKind, WorkflowEvent
from pbkv.keys import events_key
from tests.waiting import wait_until


@pytest.fixture
def replica(states):
    """The engine, when the workflows of earlier tests are over."""
    wait_until(lambda: active(states) == 0)
    return states


@pytest.fixture
def publish(redis_server):
    def send(kind, workflow, seq=None):
        event = WorkflowEvent(EventKind(kind), workflow, at_s=0.0, seq=seq)
        redis_server.client.xadd(events_key("r1"), event.to_fields())

    return send


def active(replica):
    return replica.metric("pbkv_workflows", state="active")


def test_a_terminate_event_retires(replica, publish, prompts):
    replica.generate(prompts.new(64), "w1", seq=10)
    wait_until(lambda: active(replica) == 1)

    publish("terminate", "w1", seq=11)

    wait_until(lambda: active(replica) == 0)


def test_an_old_terminate_does_not_retire_a_live_workflow(replica, publish, prompts):
    replica.generate(prompts.new(64), "w2", seq=20)
    publish("terminate", "w2", seq=19)
    publish("start", "marker", seq=1)

    # The marker came after the terminate in the stream: once it is seen, the terminate was too.
    wait_until(lambda: active(replica) == 2)


def test_silence_retires(replica, prompts):
    replica.generate(prompts.new(64), "forgotten", seq=30)

    wait_until(lambda: active(replica) == 0, timeout_s=20)


def test_a_malformed_event_is_counted_and_does_not_stop_the_next(
    replica, redis_server, publish, prompts
):
    before = replica.metric("pbkv_rejected_events_total")
    redis_server.client.xadd(events_key("r1"), {"kind": "explode"})
    replica.generate(prompts.new(64), "w3", seq=40)
    publish("terminate", "w3", seq=41)

    wait_until(lambda: active(replica) == 0)
    assert replica.metric("pbkv_rejected_events_total") == before + 1


def test_events_catch_up_after_redis_was_killed(replica, redis_server, publish, prompts):
    replica.generate(prompts.new(64), "w4", seq=50)
    redis_server.kill()
    replica.generate(prompts.new(64), "w4", seq=51)
    redis_server.start()
    publish("terminate", "w4", seq=52)

    wait_until(lambda: active(replica) == 0)
