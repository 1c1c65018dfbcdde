"""Hidden states on their way to the disk: nobody waits for it, nothing is lost unseen."""

import threading

import numpy as np
import pytest

from pbkv.sglang import hidden_trace
from pbkv.sglang.hidden_states import HiddenStateCapture
from pbkv.sglang.hidden_trace import HiddenTrace, TracedState
from pbkv.trace.hidden import ShardFolder, read_states
from tests.waiting import wait_until

pytest.importorskip("pyarrow", reason="shards are Parquet")


class State:
    def __init__(self, value, gate=None):
        self.value, self.gate = value, gate

    def read(self):
        if self.gate is not None:
            assert self.gate.wait(10)
        return np.full(4, self.value, dtype=np.float32)


class Broken:
    def read(self):
        raise RuntimeError("the device is gone")


@pytest.fixture
def outcomes():
    return []


@pytest.fixture
def trace(tmp_path, outcomes):
    trace = HiddenTrace(
        ShardFolder(tmp_path, "r", 1, max_bytes=1 << 20),
        flush_s=3600.0,
        on_outcome=lambda outcome, count: outcomes.append((outcome, count)),
    )
    trace.start()
    yield trace
    if trace._thread.is_alive():
        trace.stop()


def stored(folder):
    return {s.request_id: (s.workflow_id, s.hidden_state.tolist()) for s in read_states(folder)}


def test_what_was_announced_is_written_under_its_request(trace, tmp_path, outcomes):
    trace.announce("r1", "t:w")
    trace.announce("r2", "t:v")
    assert trace.awaits("r1") and not trace.awaits("r9")
    trace.take_hidden_state("r2", State(2.0))
    trace.take_hidden_state("r1", State(1.0))
    trace.take_hidden_state("r9", State(9.0))
    trace.take_hidden_state("r1", State(5.0))
    trace.stop()

    assert stored(tmp_path) == {"r1": ("t:w", [1.0] * 4), "r2": ("t:v", [2.0] * 4)}
    assert outcomes == [(TracedState.WRITTEN, 2)]
    assert not trace.awaits("r1")


def test_a_state_that_was_not_to_be_had_is_counted(trace, outcomes):
    trace.announce("r1", "w")
    trace.take_hidden_state("r1", None)

    assert outcomes == [(TracedState.ABSENT, 1)]


def test_a_shard_is_written_in_time_without_more_to_come(tmp_path, outcomes):
    trace = HiddenTrace(
        ShardFolder(tmp_path, "r", 1, max_bytes=1 << 20),
        flush_s=0.01,
        on_outcome=lambda outcome, count: outcomes.append((outcome, count)),
    )
    trace.start()
    trace.announce("r1", "w")
    trace.take_hidden_state("r1", State(1.0))
    wait_until(lambda: outcomes == [(TracedState.WRITTEN, 1)])
    trace.stop()

    assert list(stored(tmp_path)) == ["r1"]


def test_handing_over_never_waits_and_what_is_too_much_is_dropped(trace, outcomes):
    gate = threading.Event()
    trace._waiting.maxsize = 3
    for i in range(10):
        trace.announce(f"r{i}", "w")
    trace.take_hidden_state("r0", State(0.0, gate))
    wait_until(trace._waiting.empty)
    for i in range(1, 10):
        trace.take_hidden_state(f"r{i}", State(float(i)))
    assert outcomes == [(TracedState.DROPPED, 1)] * 6
    gate.set()
    trace.stop()

    assert outcomes[6:] == [(TracedState.WRITTEN, 4)]


def test_a_state_that_cannot_be_read_costs_itself(trace, tmp_path, outcomes):
    for name, state in (("r1", Broken()), ("r2", State(2.0))):
        trace.announce(name, "w")
        trace.take_hidden_state(name, state)
    trace.stop()

    assert outcomes == [(TracedState.DROPPED, 1), (TracedState.WRITTEN, 1)]
    assert list(stored(tmp_path)) == ["r2"]


def test_a_folder_that_is_gone_costs_the_shard(trace, tmp_path, outcomes):
    trace.announce("r1", "w")
    trace.take_hidden_state("r1", State(1.0))
    tmp_path.rmdir()
    trace.stop()

    assert outcomes == [(TracedState.DROPPED, 1)]


def test_requests_that_never_come_do_not_pile_up(trace, monkeypatch):
    monkeypatch.setattr(hidden_trace, "MAX_ANNOUNCED", 2)
    for i in range(5):
        trace.announce(f"r{i}", "w")

    assert [trace.awaits(f"r{i}") for i in range(5)] == [False, False, False, True, True]


def test_each_sink_gets_what_it_awaits():
    class Sink:
        def __init__(self, *awaited):
            self.awaited, self.got = set(awaited), []

        def announce(self, request_id, workflow_id):
            self.awaited.add(request_id)

        def awaits(self, request_id):
            return request_id in self.awaited

        def take_hidden_state(self, request_id, state):
            self.got.append((request_id, state))

    one, two = Sink("a", "b"), Sink("b")
    capture = HiddenStateCapture.for_sinks([one, two])
    assert [capture._awaits(name) for name in "abc"] == [True, True, False]
    for name in "abc":
        capture._deliver(name, None)

    assert one.got == [("a", None), ("b", None)]
    assert two.got == [("b", None)]
