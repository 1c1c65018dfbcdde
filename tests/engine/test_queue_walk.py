"""The queue on SGLang's real tree, without a server: walks, announcements and the order."""

import random

import pytest

from pbkv.settings import PolicySettings
from tests.engine.test_tree_fuzz import Driver
from tests.engine.tree_checks import check
from tests.engine.tree_harness import Harness


class QueueDriver(Driver):
    """The random operations of the tree fuzz, and requests that wait meanwhile."""

    def __init__(self, harness: Harness, seed: int) -> None:
        super().__init__(harness, seed)
        self.queue = []
        self.waiting = harness.binding.waiting

    def join(self) -> None:
        workflow = self.random.choice(("app:w0", "app:w1", "app:w2", "none"))
        invocation = None if workflow == "none" else self.harness.invocation(workflow, "Coder")
        req = self.harness._request(self.prompt(workflow), invocation, end=False)
        self.harness.binding.now_s = self.harness.now_s
        self.waiting.joined(req)
        self.queue.append(req)

    def leave(self) -> None:
        """Admitted or aborted: the queue is shorter, and the plug-in is told at the next step."""
        if self.queue:
            self.queue.remove(self.random.choice(self.queue))
            self.waiting.keep(self.queue)

    def rejoin(self) -> None:
        """Admitted and retracted within one step: it joins again before it was seen to leave."""
        if self.queue:
            self.waiting.joined(self.random.choice(self.queue))

    def sort(self) -> None:
        self.harness.binding.now_s = self.harness.now_s
        self.waiting.sort(self.queue, None)

    def reset(self) -> None:
        self.queue.clear()
        self.waiting.keep(self.queue)
        super().reset()

    def step(self) -> None:
        if self.random.random() < 0.4:
            operation = self.random.choice(
                (self.join, self.join, self.leave, self.rejoin, self.sort)
            )
            self.last.append(operation.__name__)
            operation()
        else:
            super().step()


def check_waiting(driver: QueueDriver) -> None:
    """A node counts exactly the requests that were announced at it or below it, and a walk that
    is taken for good ends where a new one would."""
    waiting = driver.waiting
    counted: dict[int, int] = {}
    for request in waiting._requests.values():
        for view in waiting._path(request.announced):
            counted[view.node_id] = counted.get(view.node_id, 0) + 1
        if not waiting._walk.outdated(request.match):
            assert waiting._walk.match(request.key) == request.match
    assert len(waiting) == len(driver.queue)
    for view in driver.harness.binding.views:
        assert view.waiting == counted.get(view.node_id, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queue", "page_size", "host_ratio"), [("pbkv", 16, 2.0), ("", 16, 2.0), ("pbkv", 1, 0.0)]
)
def test_every_node_counts_who_waits_for_it(queue, page_size, host_ratio):
    settings = PolicySettings(policy="he", queue=queue, max_workflows=4, max_retired_workflows=2)
    harness = Harness(settings, 40 * max(page_size, 6), page_size, host_ratio)
    driver = QueueDriver(harness, seed=3)
    if not queue:
        driver.sort = lambda: None
    try:
        for number in range(1500):
            try:
                driver.step()
                check(harness)
                check_waiting(driver)
            except Exception as problem:
                steps = ", ".join(driver.last)
                raise AssertionError(f"step {number} after {steps}: {problem!r}") from problem
        assert any(view.waiting for view in harness.binding.views)
        driver.queue.clear()
        driver.waiting.keep([])
        assert not any(view.waiting for view in harness.binding.views)
    finally:
        harness.close()


@pytest.fixture
def harness():
    harness = Harness(PolicySettings(policy="he", queue="pbkv"), 4096, 16, 0.0)
    yield harness
    harness.close()


def cached(harness, prompt, workflow):
    """Run a prompt of ``workflow`` to its end, so that it is cached."""
    req = harness.start(prompt, len(prompt), harness.invocation(workflow, "A"))
    harness.advance(req, 1)
    harness.finish(req)


def time_passes(harness):
    """What a cached prompt is worth follows how long workflows take, which takes a while to see."""
    harness.binding.now_s += 10.0


def tokens(number, seed):
    draw = random.Random(seed)
    return [draw.randrange(1000) for _ in range(number)]


def join(harness, prompt, workflow):
    invocation = harness.invocation(workflow, "A")
    req = harness._request(prompt, invocation, end=False)
    harness.binding.waiting.joined(req)
    return req


def test_a_split_and_an_eviction_below_it_leave_no_count_behind(harness):
    """The announced node is cut, its tail evicted: what is left of the path is found from above."""
    prompt = tokens(320, 1)
    cached(harness, prompt, "w")
    join(harness, prompt, "w")
    harness.match(prompt[:160])
    harness.evict(100)
    left = list(harness.binding.views)
    assert len(left) == 1 and left[0].waiting == 1

    harness.binding.waiting.keep([])

    assert left[0].waiting == 0


def test_a_prompt_that_waits_is_evicted_after_one_that_does_not(harness):
    waits, idle = tokens(320, 1), tokens(320, 2)
    cached(harness, waits, "w1")
    cached(harness, idle, "w2")
    join(harness, waits, "w1")

    harness.evict(320)

    assert [view.waiting for view in harness.binding.views] == [1]


def test_looking_for_a_path_neither_splits_nor_touches(harness):
    prompt = tokens(320, 1)
    cached(harness, prompt, "w")
    before = {view.node_id: (view.num_tokens, view.last_access_s) for view in harness.binding.views}

    req = join(harness, prompt[:160] + tokens(64, 9), "w2")
    harness.binding.waiting.sort([req], None)

    now = {view.node_id: (view.num_tokens, view.last_access_s) for view in harness.binding.views}
    assert now == before


def test_a_long_queue_is_still_ordered_by_what_is_cached(harness):
    """Stock gives up prefix matching above 128 requests."""
    prompt = tokens(320, 1)
    cached(harness, prompt, "w")
    queue = [join(harness, tokens(64, 100 + i), f"other-{i}") for i in range(200)]
    queue.append(join(harness, prompt, "last"))
    time_passes(harness)

    harness.binding.waiting.sort(queue, None)

    assert queue[0].origin_input_ids.tolist() == prompt


def test_of_equal_new_beginnings_one_goes_ahead_and_the_others_follow(harness):
    shared = tokens(64, 1)
    first = join(harness, shared + tokens(32, 2), "w1")
    second = join(harness, shared + tokens(32, 3), "w2")
    other = join(harness, tokens(96, 4), "w3")
    queue = [first, second, other]

    harness.binding.waiting.sort(queue, None)
    assert queue == [first, other, second]

    cached(harness, shared, "w9")
    harness.binding.waiting.sort(queue, None)
    assert queue == [first, second, other], "the beginning is cached: both are moved ahead"


def test_request_priorities_go_first(harness):
    prompt = tokens(320, 1)
    cached(harness, prompt, "w")
    urgent = join(harness, tokens(64, 2), "w1")
    favoured = join(harness, prompt, "w")
    urgent.priority, favoured.priority = 5, 1
    time_passes(harness)
    queue = [favoured, urgent]

    harness.binding.waiting.sort(queue, -1)
    assert queue == [urgent, favoured]

    harness.binding.waiting.sort(queue, None)
    assert queue == [favoured, urgent]


def test_a_retracted_request_keeps_its_arrival(harness):
    waiting = harness.binding.waiting
    harness.binding.now_s = 5.0
    req = join(harness, tokens(64, 1), "w")
    waiting.keep([])
    harness.binding.now_s = 50.0

    waiting.joined(req)

    assert waiting._requests[req].arrived_s == 5.0


def test_without_a_policy_that_uses_forecasts_nothing_is_announced():
    harness = Harness(PolicySettings(policy="lae"), 4096, 16, 0.0)
    cached(harness, tokens(320, 1), "w")

    join(harness, tokens(320, 1), "w")

    assert len(harness.binding.waiting) == 0
    assert not any(view.waiting for view in harness.binding.views)


def test_queue_knowledge_can_be_switched_off():
    settings = PolicySettings(policy="he", queue="pbkv", queue_knowledge=False)
    harness = Harness(settings, 4096, 16, 0.0)
    cached(harness, tokens(320, 1), "w")

    join(harness, tokens(320, 1), "w")

    assert len(harness.binding.waiting) == 1
    assert not any(view.waiting for view in harness.binding.views)


def test_a_prefetch_never_displaces_what_a_request_waits_for():
    """Retired cache gives way to a prefetch, but not if it will be read at once."""
    harness = Harness(PolicySettings(policy="pbkv", predictor="none"), 4096, 16, 0.0)
    waits, idle = tokens(320, 1), tokens(320, 2)
    for prompt, workflow in ((waits, "w1"), (idle, "w2")):
        cached(harness, prompt, workflow)
        harness.terminate(workflow, 0)
    join(harness, waits, "w3")

    with harness.cache.evicting_at_most_active(0):
        harness.evict(640)

    assert [view.waiting for view in harness.binding.views] == [1]
    harness.close()
