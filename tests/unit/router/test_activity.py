"""What one router counts, and for how long it keeps it."""

from router.activity import INTERVAL_S, WINDOW_S, Activity
from router.errors import RedisAway
from router.metrics import RouterMetrics


class Away:
    """A link whose Redis is away."""

    available = False

    async def ask(self, command):
        raise RedisAway("redis is away")


class Clock:
    now_s = 1_000_000.0

    def __call__(self):
        return self.now_s


def counted(metrics, status="200", route="/v1/chat/completions"):
    metrics.requests.labels(route, status).inc()


async def test_what_was_gained_belongs_to_the_interval_of_the_sample():
    metrics, clock = RouterMetrics(), Clock()
    activity = Activity(Away(), metrics, clock=clock)
    counted(metrics)
    activity.sample()
    activity.sample()
    clock.now_s += INTERVAL_S
    counted(metrics)
    counted(metrics, "503")
    # Of other routes nothing is told.
    counted(metrics, route="/metrics")
    activity.sample()
    seen = await activity.seen()
    first = int(clock.now_s // INTERVAL_S) - 1
    assert seen.scope == "router"
    assert seen.intervals == {
        first: {"status:200": 1},
        first + 1: {"status:200": 1, "status:503": 1},
    }


async def test_it_forgets_what_is_older_than_the_window():
    metrics, clock = RouterMetrics(), Clock()
    activity = Activity(Away(), metrics, clock=clock)
    for _ in range(3 * WINDOW_S // INTERVAL_S):
        counted(metrics)
        activity.sample()
        clock.now_s += INTERVAL_S
    await activity.tell()
    kept = (activity._own, activity._untold)
    assert all(len(counts) <= WINDOW_S // INTERVAL_S + 1 for counts in kept)
    seen = await activity.seen()
    assert len(seen.intervals) == WINDOW_S // INTERVAL_S
