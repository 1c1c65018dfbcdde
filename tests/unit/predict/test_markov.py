"""The Markov predictor against counts done by hand, and what holds for every traffic."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbkv.errors import InvalidCheckpoint
from pbkv.predict.markov import MarkovPredictor
from pbkv.predict.vocabulary import UNKNOWN_AGENT

NO_STATES = np.empty((1, 0), dtype=np.float32)


def watch(predictor, *workflows):
    """Let it see whole workflows, each a text of one-letter agents that then ended."""
    for agents in workflows:
        for call in range(1, len(agents) + 1):
            following = agents[call] if call < len(agents) else None
            predictor.observe(list(agents[:call]), following)
    return predictor


def forecast(predictor, prefix):
    """Per step, the probability of each agent, with END under None."""
    rows = predictor.forecast([prefix], NO_STATES)[0]
    names = (*predictor.agents, None)
    return [dict(zip(names, row.tolist(), strict=True)) for row in rows]


def test_without_traffic_every_outcome_is_as_likely():
    (step,) = forecast(MarkovPredictor(agents="AB", steps=1), "A")

    assert step == pytest.approx({UNKNOWN_AGENT: 0.25, "A": 0.25, "B": 0.25, None: 0.25})


def test_first_order_back_off_by_hand():
    """After A came B twice and C once: A B END, A B END, A C END."""
    predictor = watch(MarkovPredictor(1, "ABC", steps=1), "AB", "AB", "AC")

    (step,) = forecast(predictor, "A")

    # Columns unknown, A, B, C, END. Six observations in all: B twice, C once, END three times.
    base = 1 / 5
    shorter = {"A": (0 + base) / 7, "B": (2 + base) / 7, "C": (1 + base) / 7, None: (3 + base) / 7}
    assert step["B"] == pytest.approx((2 + shorter["B"]) / 4)
    assert step["C"] == pytest.approx((1 + shorter["C"]) / 4)
    assert step["A"] == pytest.approx(shorter["A"] / 4)
    assert step[None] == pytest.approx(shorter[None] / 4)


def test_a_later_step_counts_only_workflows_that_reached_it():
    """Half of the workflows end after A. Of those that go on, step 2 is always the end."""
    predictor = watch(MarkovPredictor(1, "AB", steps=2), *["A", "AB"] * 200)

    first, second = forecast(predictor, "A")

    assert first[None] == pytest.approx(0.5, abs=0.01)
    assert first["B"] == pytest.approx(0.5, abs=0.01)
    assert second[None] == pytest.approx(1.0, abs=0.02)


def test_a_longer_history_decides_where_the_last_agent_does_not():
    traffic = ["XAC", "YAD"] * 50
    second_order = watch(MarkovPredictor(2, "XYACD", steps=1), *traffic)
    first_order = watch(MarkovPredictor(1, "XYACD", steps=1), *traffic)

    assert forecast(second_order, "XA")[0]["C"] > 0.95
    assert forecast(second_order, "YA")[0]["D"] > 0.95
    assert forecast(first_order, "XA")[0]["C"] == pytest.approx(0.5, abs=0.02)


def test_the_first_call_is_a_context_of_its_own():
    """A at the start is followed by B, A anywhere else by the end."""
    predictor = watch(MarkovPredictor(2, "AB", steps=1), *["ABA"] * 50)

    assert forecast(predictor, "A")[0]["B"] > 0.95
    assert forecast(predictor, "ABA")[0][None] > 0.95


def test_agents_beyond_the_vocabulary_share_the_unknown_column():
    predictor = MarkovPredictor(1, max_agents=2, steps=1)
    watch(predictor, *["ABC", "ABD"] * 20)

    assert predictor.agents == (UNKNOWN_AGENT, "B", "C")
    assert forecast(predictor, "AB")[0][UNKNOWN_AGENT] == pytest.approx(0.5, abs=0.1)


def test_an_agent_learnt_later_widens_the_forecast():
    predictor = watch(MarkovPredictor(1, steps=1), *["AB"] * 20)
    watch(predictor, *["AZ"] * 60)

    (step,) = forecast(predictor, "A")

    assert step["Z"] == pytest.approx(0.75, abs=0.03)
    assert step["B"] == pytest.approx(0.25, abs=0.03)


def test_old_traffic_fades():
    predictor = MarkovPredictor(1, "AB", steps=1, max_count=64)
    watch(predictor, *["AA"] * 1000)
    watch(predictor, *["AB"] * 200)

    assert forecast(predictor, "A")[0]["B"] > 0.8, "200 recent calls outweigh 1,000 old ones"


def test_memory_is_bounded_and_the_latest_contexts_stay():
    predictor = MarkovPredictor(3, "ABCDEFGH", steps=3, max_cells=3 * 10 * 40)
    rng = np.random.default_rng(3)
    for _ in range(300):
        watch(predictor, "".join(rng.choice(list("ABCDEFGH"), size=8)))
    watch(predictor, *["ABC"] * 20)

    assert predictor.num_contexts <= 40
    assert forecast(predictor, "AB")[0]["C"] > 0.9


AGENTS = st.sampled_from(["Planner", "Coder", "Tester", "", "<unknown>", "ж"])
PREFIXES = st.lists(st.text(max_size=3) | AGENTS, min_size=1, max_size=70)
TRAFFIC = st.lists(st.tuples(st.lists(AGENTS, max_size=8), AGENTS | st.none()), max_size=40)


@settings(max_examples=60, deadline=None)
@given(
    traffic=TRAFFIC,
    prefixes=st.lists(PREFIXES, min_size=1, max_size=5),
    order=st.integers(1, 3),
    steps=st.integers(1, 4),
)
def test_every_row_is_a_distribution_and_no_agent_is_an_error(traffic, prefixes, order, steps):
    predictor = MarkovPredictor(order, steps=steps, max_agents=3)
    for prefix, following in traffic:
        predictor.observe(prefix, following)

    rows = predictor.forecast(prefixes, np.empty((len(prefixes), 0), dtype=np.float32))

    assert rows.shape == (len(prefixes), steps, len(predictor.agents) + 1)
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=2), 1.0, rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(traffic=TRAFFIC, prefix=PREFIXES)
def test_a_checkpoint_forecasts_the_same(tmp_path_factory, traffic, prefix):
    predictor = MarkovPredictor(2, steps=3)
    for seen, following in traffic:
        predictor.observe(seen, following)
    path = tmp_path_factory.mktemp("checkpoint") / "markov.json"
    predictor.save(path)

    loaded = MarkovPredictor.load(path, steps=2)

    assert loaded.agents == predictor.agents
    saved = predictor.forecast([prefix], NO_STATES)
    np.testing.assert_array_equal(loaded.forecast([prefix], NO_STATES), saved[:, :2])


def test_a_checkpoint_goes_on_learning(tmp_path):
    watch(MarkovPredictor(1, "AB", steps=1), "AB", "AB").save(tmp_path / "markov.json")
    loaded = watch(MarkovPredictor.load(tmp_path / "markov.json", steps=1), *["AC"] * 20)

    assert forecast(loaded, "A")[0]["C"] > 0.8


GOOD = (
    '{"format": 1, "family": "markov", "order": 1, "steps": 2, "smoothing": 1.0,'
    ' "agents": ["A"], "counts": [{"context": [1], "steps": [[[2, 1.0]], []]}]}'
)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("", ""), "3 are asked for"),
        (('"format": 1', '"format": 2'), "format 2"),
        (('"markov"', '"mlp"'), "family 'mlp'"),
        (("{", "", 1), "not JSON"),
        ((GOOD, "[]"), "not a checkpoint"),
        (('"order": 1', '"order": 9'), "order"),
        (('"smoothing": 1.0', '"smoothing": NaN'), "smoothing"),
        (('["A"]', '["A", "A"]'), "named twice"),
        (('"context": [1]', '"context": [7]'), "does not fit"),
        (("[[2, 1.0]]", "[[9, 1.0]]"), "not named"),
        (("[[2, 1.0]]", "[[2, -1.0]]"), "greater than 0"),
        (('"agents"', '"agnets"'), "damaged at agents"),
        (('"order": 1', '"order": 1, "depth": 4'), "damaged at depth"),
    ],
)
def test_a_bad_checkpoint_is_refused_in_one_line(tmp_path, change, word):
    path = tmp_path / "markov.json"
    path.write_text(GOOD.replace(*change))

    with pytest.raises(InvalidCheckpoint) as refused:
        MarkovPredictor.load(path, steps=3)

    assert word in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_checkpoint_is_refused(tmp_path):
    with pytest.raises(InvalidCheckpoint, match="No such file"):
        MarkovPredictor.load(tmp_path / "none.json", steps=1)
