"""The predictor's thread: what it answers, in which order, and that nobody waits for it."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest

from pbkv.predict.worker import MAX_BATCH, ForecastRequest, ForecastWorker
from tests.waiting import wait_until


class Gated:
    """A predictor that stands at a gate; it names the last agent of the prefix as the next."""

    version = "gated"
    agents = ("A", "B")
    wants_hidden_states = False

    def __init__(self):
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.batches = []
        self.seen = []
        self.faults = []

    def forecast(self, prefixes, hidden_states):
        self.entered.set()
        assert self.gate.wait(10)
        self.batches.append(([tuple(prefix) for prefix in prefixes], hidden_states))
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, Exception):
                raise fault
            return fault
        rows = np.zeros((len(prefixes), 2, 3), dtype=np.float32)
        for row, prefix in zip(rows, prefixes, strict=True):
            row[:, self.agents.index(prefix[-1])] = 1.0
        return rows

    def observe(self, prefix, following):
        self.seen.append((tuple(prefix), following))


@dataclass
class State:
    values: list

    def read(self):
        return np.array(self.values, dtype=np.float32)


@pytest.fixture
def predictor():
    return Gated()


@pytest.fixture
def failures():
    return []


@pytest.fixture
def worker(predictor, failures):
    worker = ForecastWorker(predictor, clock=lambda: 7.0, on_failure=failures.append)
    worker.start()
    yield worker
    predictor.gate.set()
    worker.stop()


def ask(worker, workflow_id, call, *prefix, state=None):
    worker.submit(ForecastRequest(workflow_id, (0, call), prefix, state))


def collected(worker, count):
    finished = []

    def enough():
        finished.extend(worker.collect())
        return len(finished) >= count

    wait_until(enough, every_s=0.001)
    return finished


def test_a_forecast_carries_its_call_its_model_and_its_time(worker, predictor):
    predictor.gate.set()
    ask(worker, "w", 3, "A", "B")

    (stamped,) = collected(worker, 1)

    assert stamped.stamp == (0, 3)
    assert stamped.forecast.workflow_id == "w"
    assert stamped.forecast.agents == ("A", "B")
    assert stamped.forecast.step_probabilities[0].tolist() == [0.0, 1.0, 0.0]
    assert (stamped.forecast.made_at_s, stamped.forecast.model_version) == (7.0, "gated")


def test_only_the_latest_request_of_a_workflow_is_answered(worker, predictor):
    ask(worker, "first", 1, "A")
    assert predictor.entered.wait(10)
    for call in range(1, 6):
        ask(worker, "w", call, *"A" * call)
    ask(worker, "v", 1, "B")
    assert worker.collect() == (), "asking and picking up did not wait for the predictor"
    predictor.gate.set()

    finished = collected(worker, 3)

    assert [(s.forecast.workflow_id, s.stamp[1]) for s in finished] == [
        ("first", 1),
        ("w", 5),
        ("v", 1),
    ]
    assert [prefixes for prefixes, _ in predictor.batches] == [[("A",)], [("A",) * 5, ("B",)]]


def test_a_dropped_workflow_is_not_forecast(worker, predictor):
    ask(worker, "first", 1, "A")
    assert predictor.entered.wait(10)
    ask(worker, "gone", 1, "A")
    ask(worker, "stays", 1, "A")
    worker.drop("gone")
    worker.drop("never seen")
    predictor.gate.set()

    assert [s.forecast.workflow_id for s in collected(worker, 2)] == ["first", "stays"]


def test_batches_are_bounded_and_keep_the_order(worker, predictor):
    ask(worker, "first", 1, "A")
    assert predictor.entered.wait(10)
    for i in range(MAX_BATCH + 3):
        ask(worker, f"w{i}", 1, "A")
    predictor.gate.set()

    finished = collected(worker, MAX_BATCH + 4)

    assert [len(prefixes) for prefixes, _ in predictor.batches] == [1, MAX_BATCH, 3]
    assert [s.forecast.workflow_id for s in finished[1:]] == [f"w{i}" for i in range(MAX_BATCH + 3)]


def test_workflows_with_and_without_hidden_state_are_separate_batches(worker, predictor):
    ask(worker, "first", 1, "A")
    assert predictor.entered.wait(10)
    ask(worker, "blind", 1, "A")
    ask(worker, "one", 1, "A", state=State([1, 2]))
    ask(worker, "two", 1, "B", state=State([3, 4]))
    predictor.gate.set()
    collected(worker, 4)

    _, blind, seeing = predictor.batches
    assert blind[1].shape == (1, 0)
    assert seeing[1].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_hidden_state_replaces_the_waiting_request_without_one(worker, predictor):
    ask(worker, "first", 1, "A")
    assert predictor.entered.wait(10)
    ask(worker, "w", 1, "A")
    ask(worker, "w", 1, "A", state=State([5.0]))
    predictor.gate.set()
    collected(worker, 2)

    assert predictor.batches[1][1].tolist() == [[5.0]]
    assert len(predictor.batches) == 2


def test_what_was_observed_is_learnt_before_the_next_forecast(worker, predictor):
    worker.observe(("A",), "B")
    worker.observe(("A", "B"), None)
    ask(worker, "w", 1, "A")
    assert predictor.entered.wait(10)

    assert predictor.seen == [(("A",), "B"), (("A", "B"), None)]


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("out of memory"),
        np.zeros((1, 2, 9), dtype=np.float32),
        np.zeros((4, 2, 3), dtype=np.float32),
        np.full((1, 2, 3), np.nan, dtype=np.float32),
    ],
    ids=["raises", "columns", "rows", "nan"],
)
def test_a_predictor_that_fails_costs_its_batch_and_no_more(worker, predictor, failures, fault):
    predictor.faults.append(fault)
    predictor.gate.set()
    ask(worker, "w", 1, "A")
    wait_until(lambda: failures == [1])
    ask(worker, "w", 2, "A", "B")

    (stamped,) = collected(worker, 1)

    assert stamped.stamp == (0, 2)


def test_stopping_ends_the_thread_with_requests_still_waiting(predictor):
    before = set(threading.enumerate())
    worker = ForecastWorker(predictor)
    worker.start()
    ask(worker, "first", 1, "A")
    assert predictor.entered.wait(10)
    ask(worker, "second", 1, "A")
    predictor.gate.set()

    worker.stop()

    assert set(threading.enumerate()) <= before
    assert len(predictor.batches) <= 2


def test_noise_mixes_in_the_uniform_distribution(predictor):
    worker = ForecastWorker(predictor, noise=0.3)
    worker.start()
    predictor.gate.set()
    ask(worker, "w", 1, "A")
    (stamped,) = collected(worker, 1)
    worker.stop()

    np.testing.assert_allclose(stamped.forecast.step_probabilities, [[0.8, 0.1, 0.1]] * 2, 1e-6)


class FarSighted(Gated):
    """Also says how many calls are still to come: as many as were made."""

    def forecast(self, prefixes, hidden_states):
        self.remaining_calls = np.array([len(prefix) for prefix in prefixes], dtype=np.float32)
        return super().forecast(prefixes, hidden_states)

    remaining_calls = np.empty(0, dtype=np.float32)


def test_remaining_calls_come_with_the_forecast_where_the_predictor_tells_them(worker, predictor):
    far_sighted = FarSighted()
    far_sighted.gate.set()
    predictor.gate.set()
    ask(worker, "w1", 1, "A")
    (without,) = collected(worker, 1)
    worker.replace(far_sighted)
    ask(worker, "w1", 3, "A", "B", "A")
    (told,) = collected(worker, 1)

    assert without.forecast.remaining_calls is None
    assert told.forecast.remaining_calls == 3.0


def test_without_a_predictor_requests_are_dropped_until_the_first_comes(predictor, failures):
    worker = ForecastWorker(None, on_failure=failures.append)
    worker.start()
    ask(worker, "w1", 1, "A")
    predictor.gate.set()
    wait_until(lambda: not worker._waiting, every_s=0.001)

    worker.replace(predictor)
    ask(worker, "w2", 1, "B")
    (stamped,) = collected(worker, 1)
    worker.stop()

    assert stamped.forecast.workflow_id == "w2"
    assert failures == []
