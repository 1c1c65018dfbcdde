"""Forecasts between scheduler and predictor, without an engine."""

import pickle

import numpy as np
import pytest

from pbkv.events import EventKind, WorkflowEvent
from pbkv.invocation import Invocation
from pbkv.policy import CacheNode, Tier, make_policy
from pbkv.predict import MarkovPredictor
from pbkv.predict.worker import ForecastWorker
from pbkv.settings import PolicySettings
from pbkv.sglang.forecasting import Forecaster, apply_forecasts
from pbkv.sglang.record import ForecastOutcome, Recorder
from pbkv.sglang.shadow import ShadowForecasts
from tests.waiting import wait_until


class Counts(Recorder):
    def __init__(self):
        self.outcomes = []
        self.accuracy = {}
        self.calibration = {}
        self.shadow = {}
        self.captured = []
        self.ops = []

    def forecast(self, outcome, count=1):
        self.outcomes += [outcome] * count

    def forecast_accuracy(self, step, accuracy):
        self.accuracy[step] = accuracy

    def forecast_calibration_error(self, step, error):
        self.calibration[step] = error

    def shadow_accuracy(self, step, accuracy):
        self.shadow[step] = accuracy

    def hidden_state(self, *, captured):
        self.captured.append(captured)

    def took(self, op, seconds):
        self.ops.append(op)


class SeesHiddenStates(MarkovPredictor):
    """Remembers with which hidden state each prefix was forecast."""

    wants_hidden_states = True

    def __init__(self):
        super().__init__(steps=3)
        self.saw = []

    def forecast(self, prefixes, hidden_states):
        for prefix, state in zip(prefixes, hidden_states, strict=True):
            self.saw.append((tuple(prefix), state.tolist()))
        return super().forecast(prefixes, hidden_states)


class State:
    def __init__(self, value):
        self.value = value

    def read(self):
        return np.array([self.value], dtype=np.float32)


class Rank:
    """What one rank has: a policy, and on rank 0 the forecaster."""

    def __init__(self, leader=True, predictor=None, shadow=None, **settings):
        settings = PolicySettings(policy="he", **settings)
        self.policy = make_policy(settings)
        self.recorder = Counts()
        self.forecaster = None
        if leader:
            self.predictor = predictor or MarkovPredictor(steps=settings.lookahead_steps)
            self.worker = ForecastWorker(self.predictor)
            self.worker.start()
            steps = settings.lookahead_steps
            self.shadow = None
            if shadow is not None:
                self.shadow_worker = ForecastWorker(shadow)
                self.shadow_worker.start()
                self.shadow = ShadowForecasts(
                    self.shadow_worker, self.policy.workflows, steps=steps
                )
            self.forecaster = Forecaster(
                self.worker,
                self.policy.workflows,
                self.recorder,
                steps=steps,
                shadow=self.shadow,
            )
            self.policy.workflows.listener = self.forecaster

    def call(self, workflow_id, agent, seq=None):
        event = WorkflowEvent(EventKind.INVOKE, workflow_id, 0.0, agent, seq)
        self.policy.on_event(event)

    def end(self, workflow_id):
        self.policy.on_event(WorkflowEvent(EventKind.TERMINATE, workflow_id, 0.0))

    def apply(self, forecasts):
        apply_forecasts(self.policy, self.recorder, self.forecaster, forecasts)

    def collected(self, count):
        finished = []

        def enough():
            finished.extend(self.forecaster.collect())
            return len(finished) >= count

        wait_until(enough, every_s=0.001)
        return finished

    def settle(self, count=1):
        """Apply the next ``count`` forecasts."""
        self.apply(self.collected(count))


@pytest.fixture
def rank():
    rank = Rank()
    yield rank
    rank.worker.stop()


def node_of(policy, workflow_id, agent, node_id):
    node = CacheNode(node_id, None, num_tokens=16, last_access_s=float(node_id))
    policy.on_store(node, Tier.DEVICE)
    policy.on_access(node, Invocation(workflow_id, agent, 0.0))
    policy.add_candidate(node, Tier.DEVICE)
    return node


def train(rank, agents, times):
    """Serve whole workflows of those agents."""
    for i in range(times):
        for agent in agents:
            rank.call(f"train-{i}", agent)
            rank.settle()
        rank.end(f"train-{i}")


def test_what_was_served_decides_what_is_kept(rank):
    """After A and B comes A again: of two nodes the newer one, of B, is the one to evict."""
    train(rank, "ABA", 20)
    rank.call("w", "A")
    of_a = node_of(rank.policy, "w", "A", 1)
    rank.settle()
    rank.call("w", "B")
    of_b = node_of(rank.policy, "w", "B", 2)
    rank.settle()

    assert rank.policy.score(of_a) > 2 * rank.policy.score(of_b) > 0
    assert rank.policy.candidates(Tier.DEVICE) == [of_b, of_a]


def test_a_forecast_that_the_workflow_overtook_is_dropped(rank):
    rank.call("w", "A")
    late = rank.collected(1)
    node = node_of(rank.policy, "w", "A", 1)
    rank.call("w", "B")

    rank.apply(late)

    assert rank.recorder.outcomes == [ForecastOutcome.LATE]
    assert rank.policy.score(node) == 0.0


def test_a_forecast_of_an_ended_workflow_is_dropped(rank):
    rank.call("w", "A", seq=5)
    late = rank.collected(1)
    rank.end("w")
    rank.apply(late)
    rank.call("w", "A", seq=9)
    rank.apply(late)

    assert rank.recorder.outcomes == [ForecastOutcome.LATE] * 2


def test_a_forecast_is_not_mistaken_for_one_of_a_later_workflow_of_that_name():
    rank = Rank(max_retired_workflows=1)
    rank.call("w", "A")
    late = rank.collected(1)
    for workflow_id in ("w", "other"):
        rank.end(workflow_id)
    assert rank.policy.workflows.get("w") is None
    rank.call("w", "A")

    rank.apply(late)
    rank.worker.stop()

    assert rank.recorder.outcomes == [ForecastOutcome.LATE]


def test_ranks_keep_and_drop_the_same_forecasts(rank):
    """Forecasts cross to a rank without a predictor as bytes; both then order their nodes alike."""
    follower = Rank(leader=False)
    broadcast = []
    for call in range(40):
        workflow_id, agent = f"w{call % 7}", "ABC"[call * call % 3]
        for one in (rank, follower):
            one.call(workflow_id, agent)
            node_of(one.policy, workflow_id, agent, call)
        if call % 11 == 10:
            for one in (rank, follower):
                one.end(f"w{(call + 1) % 7}")
        broadcast += rank.forecaster.collect()
        if call % 3 == 0:
            rank.apply(broadcast)
            follower.apply(pickle.loads(pickle.dumps(broadcast)))
            broadcast = []
    for one in (rank, follower):
        one.call("last", "A")
    while not broadcast or broadcast[-1].forecast.workflow_id != "last":
        broadcast += rank.collected(1)
    rank.apply(broadcast)
    follower.apply(pickle.loads(pickle.dumps(broadcast)))

    def order(one):
        return [(n.node_id, n.score) for n in one.policy.candidates(Tier.DEVICE)]

    assert order(rank) == order(follower)
    assert rank.recorder.outcomes == follower.recorder.outcomes
    assert ForecastOutcome.APPLIED in rank.recorder.outcomes


def test_accuracy_is_that_of_the_forecasts_in_use(rank):
    train(rank, "AB", 30)
    rank.recorder.accuracy.clear()
    rank.forecaster.publish()
    early = rank.recorder.accuracy[1]
    for i in range(90):
        for agent in "AB":
            rank.call(f"w{i}", agent)
            rank.settle()
        rank.end(f"w{i}")
    rank.forecaster.publish()

    assert rank.recorder.accuracy[1] > max(0.9, early)
    assert rank.recorder.accuracy[2] > 0.9
    assert 0.0 <= rank.recorder.calibration[1] < 0.2
    assert 3 not in rank.recorder.accuracy, "no workflow lived to be tested three steps ahead"


def test_a_hidden_state_refines_the_forecast_of_its_call():
    predictor = SeesHiddenStates()
    rank = Rank(predictor=predictor)
    rank.call("w", "A")
    rank.forecaster.announce("r1", "w")
    rank.settle()
    rank.forecaster.take_hidden_state("r1", State(4.0))
    rank.settle()
    rank.worker.stop()

    assert predictor.saw == [(("A",), []), (("A",), [4.0])]
    assert rank.recorder.outcomes == [ForecastOutcome.APPLIED] * 2
    assert rank.recorder.captured == [True]
    assert not rank.forecaster.awaits("r1")


def test_a_hidden_state_of_an_earlier_call_is_not_used_for_a_later_one():
    predictor = SeesHiddenStates()
    rank = Rank(predictor=predictor)
    rank.call("w", "A")
    rank.forecaster.announce("r1", "w")
    rank.call("w", "B")
    rank.forecaster.announce("r2", "w")
    rank.forecaster.take_hidden_state("r1", State(1.0))
    rank.forecaster.take_hidden_state("r2", State(2.0))
    wait_until(lambda: (("A", "B"), [2.0]) in predictor.saw)
    rank.worker.stop()

    assert [1.0] not in [state for _, state in predictor.saw]


def test_a_state_that_could_not_be_captured_is_counted(rank):
    rank.call("w", "A")
    rank.forecaster.announce("r1", "w")
    rank.forecaster.take_hidden_state("r1", None)

    assert rank.recorder.captured == [False]


def test_a_policy_without_forecasts_asks_for_none():
    assert not make_policy(PolicySettings(policy="lru")).uses_forecasts
    assert not make_policy(PolicySettings(policy="lae")).uses_forecasts
    assert make_policy(PolicySettings(policy="he")).uses_forecasts


class Always(MarkovPredictor):
    """Sure of one agent, whatever happens; counts how often it was asked."""

    def __init__(self, agent, wants_hidden_states=False):
        super().__init__(steps=3, agents=("A", "B"))
        self.agent = agent
        self.wants_hidden_states = wants_hidden_states
        self.asked = []

    def forecast(self, prefixes, hidden_states):
        self.asked += [(tuple(prefix), hidden_states.shape[1]) for prefix in prefixes]
        super().forecast(prefixes, hidden_states)
        rows = np.zeros((len(prefixes), 3, 4), dtype=np.float32)
        rows[:, :, self.agents.index(self.agent)] = 1.0
        return rows


def serve_both(rank, agents, workflow_id="w"):
    """Serve a workflow, with every forecast of both predictors in time."""
    for step, agent in enumerate(agents, start=1):
        rank.call(workflow_id, agent)
        rank.settle()
        made = rank.shadow.accuracy._made
        wait_until(
            lambda made=made, step=step: (
                rank.apply(rank.forecaster.collect()) or step in made.get(workflow_id, {})
            ),
            every_s=0.001,
        )


def test_a_shadow_is_judged_as_the_predictor_is_and_never_acts():
    rank = Rank(predictor=Always("A"), shadow=Always("B"))
    serve_both(rank, "AABBB")
    of_a, of_b = (node_of(rank.policy, "w", agent, i) for i, agent in enumerate("AB"))
    rank.forecaster.publish()
    rank.worker.stop()
    rank.shadow_worker.stop()

    assert rank.recorder.accuracy[1] == 0.25
    assert rank.recorder.shadow[1] == 0.75
    assert rank.policy.score(of_a) > rank.policy.score(of_b) == 0.0
    assert rank.recorder.outcomes == [ForecastOutcome.APPLIED] * 5


def test_a_shadow_that_fails_costs_nothing_but_its_own_record():
    class Broken(Always):
        def forecast(self, prefixes, hidden_states):
            self.asked.append(None)
            raise RuntimeError("broken")

    broken = Broken("A")
    rank = Rank(predictor=Always("A"), shadow=broken)
    rank.call("w", "A")
    rank.settle()
    wait_until(lambda: broken.asked)
    rank.call("w", "A")
    rank.settle()
    rank.forecaster.publish()
    rank.worker.stop()
    rank.shadow_worker.stop()

    assert rank.recorder.accuracy == {1: 1.0}
    assert rank.recorder.shadow == {}


def test_a_hidden_state_goes_only_to_the_predictor_that_wants_it():
    blind, seeing = Always("A"), Always("B", wants_hidden_states=True)
    rank = Rank(predictor=blind, shadow=seeing)
    rank.call("w", "A")
    rank.forecaster.announce("r1", "w")
    rank.settle()
    rank.forecaster.take_hidden_state("r1", State(4.0))
    wait_until(lambda: (("A",), 1) in seeing.asked)
    rank.worker.stop()
    rank.shadow_worker.stop()

    assert blind.asked == [(("A",), 0)]
