"""Due times: their rate, their spread, their seed."""

import random
import statistics
from itertools import islice, pairwise, takewhile

import pytest

from loadgen.arrivals import ArrivalKind, Arrivals
from loadgen.errors import BadLoad


def gaps(arrivals, count=4000):
    times = [0.0, *islice(arrivals.due_times(random.Random(1)), count)]
    return [later - earlier for earlier, later in pairwise(times)]


@pytest.mark.parametrize(
    ("arrivals", "variation"),
    [
        (Arrivals(ArrivalKind.POISSON, rate=4.0), 1.0),
        (Arrivals(ArrivalKind.GAMMA, rate=4.0, burstiness=1.0), 1.0),
        (Arrivals(ArrivalKind.GAMMA, rate=4.0, burstiness=3.0), 3.0),
    ],
)
def test_rate_and_burstiness(arrivals, variation):
    found = gaps(arrivals)
    assert min(found) >= 0
    assert statistics.mean(found) == pytest.approx(0.25, rel=0.15)
    assert statistics.stdev(found) / statistics.mean(found) == pytest.approx(variation, rel=0.15)


def test_equal_seeds_give_equal_times():
    arrivals = Arrivals(ArrivalKind.POISSON, rate=2.0)
    assert list(islice(arrivals.due_times(random.Random(7)), 9)) == list(
        islice(arrivals.due_times(random.Random(7)), 9)
    )


@pytest.mark.parametrize(("rate", "rate_to"), [(10.0, 50.0), (50.0, 10.0), (30.0, 30.0)])
def test_a_ramp_has_its_mean_rate_and_then_stays(rate, rate_to):
    arrivals = Arrivals(ArrivalKind.RAMP, rate=rate, rate_to=rate_to, ramp_s=100.0)
    times = list(takewhile(lambda at_s: at_s < 200, arrivals.due_times(random.Random(2))))
    assert times == sorted(times)
    first_half = sum(at_s < 50 for at_s in times) / 50
    after = sum(at_s >= 100 for at_s in times) / 100
    assert first_half == pytest.approx(rate + (rate_to - rate) / 4, rel=0.1)
    assert after == pytest.approx(rate_to, rel=0.1)


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": ArrivalKind.POISSON},
        {"kind": ArrivalKind.GAMMA, "rate": 1.0, "burstiness": 0.0},
        {"kind": ArrivalKind.RAMP, "rate": 1.0},
        {"speed": 0.0},
    ],
)
def test_settings_that_make_no_sense(settings):
    with pytest.raises(BadLoad):
        Arrivals(**settings)
