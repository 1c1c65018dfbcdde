"""Where new workflows go."""

from hypothesis import given
from hypothesis import strategies as st

from router.placement import Candidate, rank, rank_by_hash, rendezvous, score
from router.replica import Replica


def replica(name, *, state="ready", model="m", active=0):
    return Replica(
        id=name,
        url="http://h:1",
        state=state,
        model=model,
        kv_tokens_total=100,
        kv_tokens_active=active,
    )


def order(candidates, workflow="w", model="m", exclude=frozenset()):
    return [r.id for r in rank(candidates, model=model, workflow=workflow, exclude=exclude)]


def test_only_ready_replicas_of_the_model():
    candidates = [
        Candidate(replica("starting", state="starting"), 0),
        Candidate(replica("draining", state="draining"), 0),
        Candidate(replica("other", model="n"), 0),
        Candidate(replica("lost"), 0),
        Candidate(replica("fit"), 99),
    ]
    assert order(candidates, exclude=frozenset({"lost"})) == ["fit"]


def test_fewer_pins_come_first():
    candidates = [Candidate(replica("a"), 3), Candidate(replica("b"), 2)]
    assert order(candidates) == ["b", "a"]


def test_less_active_cache_comes_first():
    candidates = [Candidate(replica("a", active=60), 5), Candidate(replica("b", active=10), 5)]
    assert order(candidates) == ["b", "a"]


def test_one_pin_does_not_outweigh_a_full_cache():
    candidates = [Candidate(replica("full", active=95), 0), Candidate(replica("free"), 1)]
    assert order(candidates) == ["free", "full"]


def test_placing_one_by_one_is_even():
    pins = dict.fromkeys("abc", 0)
    for i in range(300):
        candidates = [Candidate(replica(name), count) for name, count in pins.items()]
        pins[order(candidates, workflow=f"w{i}")[0]] += 1
    assert set(pins.values()) == {100}


def test_ties_are_spread_and_do_not_depend_on_the_order():
    candidates = [Candidate(replica(name), 0) for name in "abcd"]
    firsts = {order(candidates, workflow=f"w{i}")[0] for i in range(50)}
    assert firsts == set("abcd")
    for i in range(50):
        assert order(candidates, f"w{i}") == order(candidates[::-1], f"w{i}")


def test_hashing_moves_only_the_workflows_of_the_replica_that_went():
    replicas = [replica(name) for name in "abcd"]

    def first(workflow, among):
        return rank_by_hash(among, model="m", workflow=workflow, exclude=frozenset())[0].id

    for i in range(200):
        before = first(f"w{i}", replicas)
        after = first(f"w{i}", replicas[:-1])
        assert after == before or before == "d"


def test_similar_ids_are_independent():
    assert rendezvous("session-1", "2a") != rendezvous("session-12", "a")


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(-50, 10**6))
def test_score_is_a_fraction(pinned, more, active):
    assert 0.0 <= score(Candidate(replica("a", active=active), pinned), pinned + more) <= 1.0
