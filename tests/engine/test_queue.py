"""The queue order ``pbkv`` and ``GET /pbkv/nodes`` in the real engine, one request at a time."""

import json
import threading
from contextlib import contextmanager

import pytest

from tests.waiting import wait_until


@pytest.fixture
def engine(unpredicted):
    return unpredicted


@pytest.fixture(autouse=True)
def empty_cache(unpredicted):
    unpredicted.flush()


def nodes(engine, limit=20):
    answer = engine.http.get("/pbkv/nodes", params={"limit": limit})
    answer.raise_for_status()
    return answer.json()


def abort(engine, rid):
    engine.http.post("/abort_request", json={"rid": rid}).raise_for_status()


def let_the_clock_move(engine):
    """The clock that the queue goes by ticks twice a second."""
    before = nodes(engine)["clock_s"]
    wait_until(lambda: nodes(engine)["clock_s"] > before)


@contextmanager
def busy(engine, prompts):
    """The one request that may run is running, until the end of the block."""
    body = engine.body(prompts.new(8), "blocker", max_new_tokens=2500) | {"rid": "blocker"}
    thread = threading.Thread(target=engine.http.post, args=("/generate",), kwargs={"json": body})
    thread.start()
    wait_until(lambda: engine.metric("sglang:num_running_reqs") >= 1)
    try:
        yield
    finally:
        abort(engine, "blocker")
        thread.join()


class Queue:
    """Puts requests into the engine's queue one by one and notes in which order they end."""

    def __init__(self, engine):
        self.engine = engine
        self.ended = []
        self.replies = {}
        self.threads = []

    def put(self, name, prompt, workflow, **fields):
        before = nodes(self.engine)["waiting_requests"]
        body = self.engine.body(prompt, workflow, **fields) | {"rid": name}
        thread = threading.Thread(target=self._send, args=(name, body))
        thread.start()
        self.threads.append(thread)
        wait_until(lambda: nodes(self.engine)["waiting_requests"] == before + 1)

    def _send(self, name, body):
        answer = self.engine.http.post("/generate", json=body).json()
        self.ended.append(name)
        self.replies[name] = answer.get("output_ids")

    def order(self):
        for thread in self.threads:
            thread.join()
        return self.ended


def test_the_older_workflow_goes_first_although_the_younger_one_came_first(engine, prompts):
    engine.generate(prompts.new(32), "old")
    let_the_clock_move(engine)
    engine.generate(prompts.new(32), "young")
    queue = Queue(engine)

    with busy(engine, prompts):
        queue.put("of the young", prompts.new(64), "young")
        queue.put("of the old", prompts.new(64), "old")

    assert queue.order() == ["of the old", "of the young"]


def test_a_cached_prompt_gets_its_bonus(engine, prompts):
    cached = prompts.new(800)
    engine.generate(prompts.new(32), "first")
    let_the_clock_move(engine)
    engine.generate(cached, "second")
    queue = Queue(engine)

    with busy(engine, prompts):
        queue.put("not cached", prompts.new(800), "first")
        queue.put("cached", cached, "second")

    assert queue.order() == ["cached", "not cached"]


def test_replies_are_those_of_stock_in_its_own_order(engine, stock, prompts):
    shared = prompts.new(300)
    asked = {f"r{i}": shared[: 100 * (i % 4)] + prompts.new(150 + 120 * i) for i in range(8)}
    queue = Queue(engine)

    with busy(engine, prompts):
        for name, prompt in asked.items():
            queue.put(name, prompt, f"w-{name}", max_new_tokens=6)
    queue.order()

    for name, prompt in asked.items():
        assert queue.replies[name] == stock.generate(prompt, max_new_tokens=6).output_ids


def test_waiting_requests_protect_their_path_until_they_left_the_queue(engine, prompts):
    cached = prompts.new(900)
    engine.generate(cached, "w")
    queue = Queue(engine)

    with busy(engine, prompts):
        for i in range(4):
            queue.put(f"q{i}", cached + prompts.new(32), "w")
        row = next(r for r in nodes(engine)["device"]["nodes"] if "w" in r["workflows"])
        assert row["waiting"] == 4
        assert row["score"] == pytest.approx(4.0)
        for name in ("q1", "q3"):
            abort(engine, name)
        wait_until(lambda: nodes(engine)["waiting_requests"] == 2)
        assert nodes(engine)["waiting_nodes"] > 0

    assert {"q0", "q2"} <= set(queue.order())
    state = nodes(engine, limit=1000)
    assert state["waiting_requests"] == 0 and state["waiting_nodes"] == 0


def evicted(engine):
    return [json.loads(line) for line in engine.log.read_text().splitlines()]


def test_nodes_are_shown_in_the_order_in_which_they_are_evicted(engine, prompts):
    for i in range(6):
        # One chunk each: with several, the parent of the first victim would be the second.
        engine.generate(prompts.new(500), f"w{i}", agent=f"agent {i}", end=i % 2 == 1)
    shown = nodes(engine, limit=3)
    seen = len(evicted(engine))

    engine.generate(prompts.new(2500), "new")

    listed = shown["device"]["nodes"]
    gone = evicted(engine)[seen : seen + 3]
    assert [row["node"] for row in listed] == [line["node"] for line in gone]
    assert [row["tokens"] for row in listed] == [line["tokens"] for line in gone]
    assert [sorted(row["workflows"]) for row in listed] == [line["workflows"] for line in gone]
    assert [row["workflows"] for row in listed] == [{f"w{i}": [f"agent {i}"]} for i in (1, 3, 5)]
    assert {row["reason"] for row in listed} == {line["reason"] for line in gone} == {"retired"}
    assert shown["device"]["candidates"] == 6
    assert shown["device"]["retired_tokens"] == shown["device"]["tokens"] / 2


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", "1e2", "", "9" * 5000])
def test_a_bad_limit_is_refused_with_a_reason(engine, limit):
    answer = engine.http.get("/pbkv/nodes", params={"limit": limit})

    assert answer.status_code == 400
    assert "from 1 to 1000" in answer.json()["error"]["message"]


def test_server_info_does_not_carry_the_nodes(engine, prompts):
    engine.generate(prompts.new(100), "a workflow of this test")

    assert "a workflow of this test" in engine.http.get("/pbkv/nodes").text
    assert "a workflow of this test" not in engine.http.get("/server_info").text


def test_stock_has_no_such_route(stock):
    assert stock.http.get("/pbkv/nodes").status_code == 404


def test_nobody_is_passed_over_beyond_the_bound(pair, prompts):
    """What waits longer than the bound goes in order of arrival, whatever its age and cache."""
    cached = prompts.new(600)
    pair.generate(cached, "old")
    let_the_clock_move(pair)
    queue = Queue(pair)

    with busy(pair, prompts):
        queue.put("first", prompts.new(64), "young")
        queue.put("second", prompts.new(64), "young")
        queue.put("third", cached, "old")
        joined_s = nodes(pair)["clock_s"]
        wait_until(lambda: nodes(pair)["clock_s"] >= joined_s + 0.5)

    assert queue.order() == ["first", "second", "third"]


def test_both_ranks_admit_alike(pair, prompts):
    """Ranks that ordered their queues differently would hang, or fail the consensus checker."""
    shared = prompts.new(200)
    queue = Queue(pair)

    with busy(pair, prompts):
        for i in range(12):
            prompt = (shared if i % 2 else []) + prompts.new(400)
            queue.put(f"r{i}", prompt, f"w{i % 5}", agent=f"a{i % 3}", end=i % 4 == 0)

    assert sorted(queue.order()) == sorted(f"r{i}" for i in range(12))
    assert all(len(reply) == 4 for reply in queue.replies.values())
    logs = [path.read_text().splitlines() for path in pair.logs]
    assert logs[0] == logs[1] and logs[0]
    assert nodes(pair, limit=1000)["waiting_nodes"] == 0
