"""What a router decides alone."""

from hypothesis import given
from hypothesis import strategies as st

from pbkv.events import EventKind
from router.local_pins import LocalPins
from router.pins import PinAnswer, PinRequest, WorkflowKey

KEY = WorkflowKey("default", "w")
SERVING = {"a", "b"}


def ask(agent="planner", down=(), key=KEY, counts=True, model="m"):
    return PinRequest(key=key, agent=agent, model=model, down=frozenset(down), counts=counts)


def memory(max_pins=10, max_events=10):
    return LocalPins(max_pins=max_pins, max_events=max_events)


def drain(pins):
    events = []
    while (queued := pins.next_event()) is not None:
        events.append((queued.replica_id, queued.event.kind, queued.event.seq))
        pins.event_told(queued)
    return events


def test_a_pin_holds():
    pins = memory()
    first = pins.pin(ask(), ["a", "b"], SERVING, 1.0)
    second = pins.pin(ask(), ["b", "a"], SERVING, 2.0)
    assert (first.replica_id, second.replica_id) == ("a", "a")
    assert (first.step, second.step) == (1, 2)
    assert (first.epoch, second.epoch) == (1, 1)
    assert drain(pins) == [("a", EventKind.START, first.seq)]


def test_a_lost_replica_moves_the_pin():
    pins = memory()
    pins.pin(ask(), ["a", "b"], SERVING, 1.0)
    drain(pins)
    moved = pins.pin(ask(down=("a",), counts=False), ["b"], SERVING, 2.0)
    assert (moved.replica_id, moved.epoch, moved.step) == ("b", 2, 1)
    assert moved.moved_for == "replica_lost"
    assert drain(pins) == [
        ("a", EventKind.TERMINATE, moved.seq),
        ("b", EventKind.START, moved.seq),
    ]


def test_a_replica_that_serves_no_more_moves_the_pin():
    pins = memory()
    pins.pin(ask(), ["a", "b"], SERVING, 1.0)
    assert pins.pin(ask(), ["b"], {"b"}, 2.0).moved_for == "replica_expired"


def test_no_replica_is_no_pin():
    pins = memory()
    assert pins.pin(ask(), [], set(), 1.0) is None
    assert pins.get(KEY) is None


def test_models_have_pins_of_their_own():
    pins = memory()
    assert pins.pin(ask(model="m"), ["a"], SERVING, 1.0).replica_id == "a"
    assert pins.pin(ask(model="n"), ["b"], SERVING, 1.0).replica_id == "b"
    assert pins.pin(ask(model="m"), ["b"], SERVING, 1.0).replica_id == "a"
    drain(pins)
    seq = pins.end(KEY, 2.0)
    assert drain(pins) == [("a", EventKind.TERMINATE, seq), ("b", EventKind.TERMINATE, seq)]


def test_end_is_idempotent_and_a_call_revives():
    pins = memory()
    pins.pin(ask(), ["a", "b"], SERVING, 1.0)
    assert pins.end(KEY, 2.0) is not None
    assert pins.end(KEY, 3.0) is None
    drain(pins)
    again = pins.pin(ask(), ["a", "b"], SERVING, 4.0)
    assert drain(pins) == [("a", EventKind.START, again.seq)]


def test_a_later_call_outlives_the_end_of_an_earlier_one():
    pins = memory()
    ending = pins.pin(ask(), ["a", "b"], SERVING, 1.0)
    pins.pin(ask(), ["a", "b"], SERVING, 1.5)
    assert pins.end(KEY, 2.0, call_seq=ending.seq) is None
    assert pins.get(KEY).state == "active"


def test_end_of_an_unknown_workflow_is_nothing():
    assert memory().end(KEY, 1.0) is None


def test_memory_is_bounded():
    pins = memory(max_pins=2, max_events=3)
    keys = [WorkflowKey("default", f"w{i}") for i in range(5)]
    for key in keys:
        pins.pin(ask(key=key), ["a", "b"], SERVING, 1.0)
    assert [pins.get(key) is not None for key in keys] == [False, False, False, True, True]
    assert pins.num_queued == 3
    assert pins.dropped_events == 2
    told = []
    while (untold := pins.next_untold()) is not None:
        told.append(untold[0])
        pins.pin_told(untold[0], untold[1].seq)
    assert told == keys[3:]


def test_a_decision_made_while_telling_is_told_too():
    pins = memory()
    seq = pins.pin(ask(), ["a", "b"], SERVING, 1.0).seq
    pins.pin(ask(), ["a", "b"], SERVING, 2.0)
    pins.pin_told(KEY, seq)
    assert pins.next_untold() is not None


def test_answers_that_overtook_each_other():
    pins = memory()

    def answer(replica_id, seq, epoch, step):
        return PinAnswer(replica_id, "", "", "", epoch, step, seq, False, "")

    pins.remember(ask(), answer("b", 20, 2, 2), 1.0)
    pins.remember(ask(), answer("a", 10, 1, 1), 1.1)
    pin = pins.get(KEY)
    assert (pin.replica, pin.seq, pin.epoch, pin.step) == ("b", 20, 2, 2)


steps = st.lists(
    st.tuples(st.sampled_from(["call", "end", "remember"]), st.floats(0, 1e10), st.integers(0, 3)),
    max_size=40,
)


@given(steps)
def test_seq_grows_whatever_the_clock_does(steps):
    pins = memory()
    last = 0
    for kind, now_s, jump in steps:
        if kind == "call":
            seq = pins.pin(ask(), ["a", "b"], SERVING, now_s).seq
        elif kind == "end":
            seq = pins.end(KEY, now_s)
        else:
            # Redis answered meanwhile, a little ahead.
            seq = last + 1 + jump
            pins.remember(ask(), PinAnswer("a", "", "", "", 1, 1, seq, False, ""), now_s)
        if seq is not None:
            assert seq > last
            last = seq
