"""The order of waiting requests: what comes first, and how long anyone can be passed over."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pbkv.pace import Pace
from pbkv.policy.queue_order import QueueEntry, QueueOrder
from pbkv.settings import PolicySettings

ORDER = QueueOrder(cached_weight=1.0, remaining_weight=0.5, max_wait_s=120.0)
USUAL = Pace(duration_s=60.0, calls=10.0)


def entry(started_s, arrival, **fields):
    values = {"arrived_s": started_s, "prompt_tokens": 1000}
    return QueueEntry(started_s=started_s, arrival=arrival, **(values | fields))


def admitted(entries, now_s=100.0, order=ORDER):
    """Arrival numbers in the order in which the requests would be admitted."""
    keys = order.keys(entries, now_s, USUAL)
    return [e.arrival for _, e in sorted(zip(keys, entries, strict=True), key=lambda pair: pair[0])]


def test_the_oldest_workflow_goes_first_whoever_came_first():
    young = entry(50.0, 0, arrived_s=90.0)
    old = entry(10.0, 1, arrived_s=95.0)

    assert admitted([young, old]) == [1, 0]


def test_a_cached_prompt_is_worth_the_bonus_and_no_more():
    uncached = entry(0.0, 0)
    cached = {"cached_tokens": 1000}

    assert admitted([uncached, entry(59.0, 1, **cached)]) == [1, 0]
    assert admitted([uncached, entry(61.0, 1, **cached)]) == [0, 1]


def test_half_a_cached_prompt_is_worth_half():
    assert admitted([entry(0.0, 0), entry(29.0, 1, cached_tokens=500)]) == [1, 0]
    assert admitted([entry(0.0, 0), entry(31.0, 1, cached_tokens=500)]) == [0, 1]


def test_what_others_come_back_for_can_wait():
    """Eviction keeps the first one's path for others; the second one's goes if it is not read."""
    shared = entry(0.0, 0, cached_tokens=900, reuse=2.0)
    private = entry(5.0, 1, cached_tokens=900, reuse=0.0)

    assert admitted([shared, private]) == [1, 0]


def test_the_workflow_with_fewer_calls_to_come_goes_first():
    entries = [entry(0.0, 0, calls_left=8.0), entry(5.0, 1, calls_left=2.0)]

    assert admitted(entries) == [1, 0]


def test_a_whole_workflow_ahead_is_worth_its_weight_and_no_more():
    """6 calls more of the usual 10, at a weight of half a workflow of 60 s, are 18 s."""
    many, few = {"calls_left": 8.0}, {"calls_left": 2.0}

    assert admitted([entry(0.0, 0, **many), entry(17.0, 1, **few)]) == [1, 0]
    assert admitted([entry(0.0, 0, **many), entry(19.0, 1, **few)]) == [0, 1]


def test_without_a_forecast_the_usual_number_of_calls_tells():
    entries = [entry(0.0, 0, calls_made=2), entry(0.0, 1, calls_made=7)]
    told = [entry(0.0, 0, calls_left=8.0), entry(0.0, 1, calls_left=3.0)]

    assert admitted(entries) == [1, 0]
    assert ORDER.keys(entries, 100.0, USUAL) == ORDER.keys(told, 100.0, USUAL)


def test_the_order_is_the_same_where_workflows_take_longer():
    entries = [entry(0.0, 0), entry(40.0, 1, cached_tokens=900), entry(20.0, 2, calls_made=9)]
    slower = [
        replace(e, started_s=10.0 * e.started_s, arrived_s=10.0 * e.arrived_s) for e in entries
    ]
    keys = replace(ORDER, max_wait_s=1200.0).keys(slower, 1000.0, Pace(600.0, 10.0))

    assert admitted(entries) == sorted(range(3), key=keys.__getitem__)


def test_overdue_requests_go_first_in_order_of_arrival():
    entries = [
        entry(0.0, 0, arrived_s=70.0, cached_tokens=1000),
        entry(30.0, 1, arrived_s=30.0),
        entry(20.0, 2, arrived_s=40.0, cached_tokens=1000),
    ]

    assert admitted(entries, now_s=160.0) == [1, 2, 0]
    assert admitted(entries, now_s=149.0) == [0, 2, 1]


def test_an_empty_prompt_has_no_cached_share():
    assert entry(0.0, 0, prompt_tokens=0).cached_share == 0.0


def test_the_weights_come_from_the_settings():
    settings = PolicySettings(
        queue="pbkv", queue_cached_weight=1.5, queue_remaining_weight=2.0, queue_max_wait_s=3.0
    )

    assert QueueOrder.of(settings) == QueueOrder(1.5, 2.0, 3.0)


seconds = st.floats(0.0, 300.0, allow_nan=False)
weights = st.builds(
    QueueOrder,
    cached_weight=st.floats(0.0, 3.0),
    remaining_weight=st.floats(0.0, 3.0),
    max_wait_s=st.floats(0.5, 200.0),
)


@st.composite
def queues(draw):
    size = draw(st.integers(1, 12))
    entries = []
    arrived_s = 0.0
    for arrival in range(size):
        arrived_s += draw(st.floats(0.0, 20.0))
        prompt = draw(st.integers(1, 500))
        entries.append(
            QueueEntry(
                started_s=draw(st.floats(0.0, arrived_s)),
                arrived_s=arrived_s,
                arrival=arrival,
                prompt_tokens=prompt,
                cached_tokens=draw(st.integers(0, prompt)),
                reuse=draw(st.floats(0.0, 5.0)),
                calls_made=draw(st.integers(0, 30)),
                calls_left=draw(st.none() | st.floats(1.0, 30.0)),
            )
        )
    return entries


@given(queues(), weights, seconds, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_how_the_queue_stood(entries, order, now_s, random):
    shuffled = list(entries)
    random.shuffle(shuffled)

    assert admitted(shuffled, now_s, order) == admitted(entries, now_s, order)


@given(queues(), weights, seconds, st.data())
def test_more_cache_never_moves_a_request_back(entries, order, now_s, data):
    which = data.draw(st.integers(0, len(entries) - 1))
    chosen = entries[which]
    more = data.draw(st.integers(chosen.cached_tokens, chosen.prompt_tokens))
    before = admitted(entries, now_s, order).index(chosen.arrival)
    entries[which] = replace(chosen, cached_tokens=more)

    assert admitted(entries, now_s, order).index(chosen.arrival) <= before


@given(
    queues(),
    weights,
    st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(0, 2)), min_size=1, max_size=60),
)
def test_nothing_that_came_later_is_admitted_before_an_overdue_request(entries, order, steps):
    """An engine that admits some of the head of the queue at every step, while others arrive."""
    coming = list(entries)
    waiting = []
    now_s = 0.0
    for passed_s, slots in steps:
        now_s += passed_s
        while coming and coming[0].arrived_s <= now_s:
            waiting.append(coming.pop(0))
        for arrival in admitted(waiting, now_s, order)[:slots]:
            left_behind = [e for e in waiting if e.arrival < arrival]
            assert not any(order.overdue(e, now_s) for e in left_behind)
            waiting = [e for e in waiting if e.arrival != arrival]


@given(queues(), weights)
def test_an_overdue_request_waits_only_for_those_that_came_before_it(entries, order):
    last = entries[-1]
    now_s = last.arrived_s + 2.0 * order.max_wait_s

    assert admitted(entries, now_s, order) == [e.arrival for e in entries]
