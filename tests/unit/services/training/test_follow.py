"""The follower: publishes what is better, keeps what is as good, goes back when it drifts."""

import threading

import numpy as np
import pytest

from pbkv.errors import PbkvError
from pbkv.predict.publication import resolve_checkpoint
from services.training.errors import InvalidFollow, StreamAway
from services.training.follow import Action, Follower, FollowSettings, follow
from services.training.publication import CheckpointFolder
from services.training.trainer import MarkovTrainer, Score, score_predictor
from services.training.window import TraceWindow
from tests.unit.services.training.traffic import many, workflow

SETTINGS = FollowSettings(window=100, held_out=10, train_every=20)


class Scripted:
    """A trainer whose candidates are as good as the test says, version by version."""

    suffix = ".txt"

    def __init__(self):
        self.fits = 0
        self.accuracy = {}
        self.fail = False

    def fit(self, workflows, checkpoint):
        self.fits += 1
        if self.fail:
            raise PbkvError("no hidden states")
        checkpoint.write_text(str(self.fits))

    def score(self, checkpoint, workflows):
        return Score((self.accuracy[checkpoint.read_text()],), (0.0,))


class Cluster:
    """A follower, and traffic to feed it."""

    def __init__(self, tmp_path):
        self.folder = CheckpointFolder(tmp_path)
        self.trainer = Scripted()
        self.now_s = 0.0
        self.follower = Follower(self.trainer, self.folder, SETTINGS, clock=lambda: self.now_s)
        self.served = 0

    def serve(self, count, agents="AB"):
        self.follower.take(many(agents, count, first=self.served))
        self.served += count
        self.now_s = 10.0 * self.served + 60.0

    def round(self, **accuracy):
        """Serve enough for a round in which ``v1=0.5`` is how good candidate 1 is now."""
        self.trainer.accuracy = {name.removeprefix("v"): a for name, a in accuracy.items()}
        self.serve(30 if self.served == 0 else 20)
        return self.follower.consider()


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


def test_nothing_is_decided_before_there_is_enough(cluster):
    cluster.serve(29)
    assert cluster.follower.consider() is None
    assert cluster.trainer.fits == 0


def test_the_first_candidate_is_published(cluster):
    decision = cluster.round(v1=0.5)

    assert (decision.action, decision.version) == (Action.PUBLISHED, "000001.txt")
    assert (decision.candidate, decision.served, decision.drifted) == (0.5, None, False)
    assert (decision.trained_on, decision.held_out) == (20, 10)
    assert resolve_checkpoint(cluster.folder.folder).read_text() == "1"
    assert cluster.follower.consider() is None, "not again before the next workflows"


@pytest.mark.parametrize("gain", [-0.2, 0.0, 0.004])
def test_a_candidate_that_is_not_better_is_not_published(cluster, gain):
    cluster.round(v1=0.5)

    decision = cluster.round(v1=0.5, v2=0.5 + gain)

    assert (decision.action, decision.version) == (Action.KEPT, "000001.txt")
    assert cluster.folder.versions() == ["000001.txt"]


def test_a_better_candidate_is_published(cluster):
    cluster.round(v1=0.5)

    decision = cluster.round(v1=0.5, v2=0.6)

    assert (decision.action, decision.version) == (Action.PUBLISHED, "000002.txt")
    assert cluster.folder.current() == "000002.txt"


def test_a_version_that_drifted_gives_way_to_an_earlier_one_that_is_better(cluster):
    cluster.round(v1=0.5)
    cluster.round(v1=0.5, v2=0.6)

    decision = cluster.round(v1=0.55, v2=0.4, v3=0.4)

    assert (decision.action, decision.version) == (Action.ROLLED_BACK, "000001.txt")
    assert decision.drifted
    assert resolve_checkpoint(cluster.folder.folder).read_text() == "1"


def test_a_version_that_did_not_drift_stays_though_an_earlier_one_is_a_little_better(cluster):
    cluster.round(v1=0.5)
    cluster.round(v1=0.5, v2=0.6)

    decision = cluster.round(v1=0.59, v2=0.58, v3=0.5)

    assert (decision.action, decision.version, decision.drifted) == (
        Action.KEPT,
        "000002.txt",
        False,
    )


def test_after_drift_a_better_candidate_comes_first(cluster):
    cluster.round(v1=0.5)
    cluster.round(v1=0.5, v2=0.6)

    decision = cluster.round(v1=0.55, v2=0.4, v3=0.5)

    assert (decision.action, decision.version) == (Action.PUBLISHED, "000003.txt")


def test_drift_with_nothing_better_changes_nothing(cluster):
    cluster.round(v1=0.5)

    decision = cluster.round(v1=0.3, v2=0.2)

    assert (decision.action, decision.drifted) == (Action.KEPT, True)


def test_what_cannot_be_learnt_changes_nothing_and_the_next_round_may(cluster):
    cluster.trainer.fail = True
    with pytest.raises(PbkvError):
        cluster.round()
    assert cluster.folder.versions() == []
    cluster.trainer.fail = False

    assert cluster.round(v2=0.5).action is Action.PUBLISHED


def test_a_published_version_that_cannot_be_read_is_replaced(cluster):
    follower = Follower(
        MarkovTrainer(steps=1), cluster.folder, SETTINGS, clock=lambda: cluster.now_s
    )
    cluster.follower = follower
    cluster.serve(30)
    follower.consider()
    (version,) = cluster.folder.versions()
    cluster.folder.path(version).write_text("damaged")
    cluster.serve(20)

    decision = follower.consider()

    assert (decision.action, decision.served) == (Action.PUBLISHED, None)


def test_markov_learns_new_traffic_and_publishes_it(tmp_path):
    """Traffic changes from A, B to A, C: after a while the newest held-out traces know only C."""
    cluster = Cluster(tmp_path)
    cluster.follower = Follower(
        MarkovTrainer(steps=1), cluster.folder, SETTINGS, clock=lambda: cluster.now_s
    )
    cluster.serve(30, "AB")
    first = cluster.follower.consider()
    assert (first.action, first.candidate) == (Action.PUBLISHED, 1.0)

    decisions = []
    for _ in range(6):
        cluster.serve(20, "AC")
        decisions.append(cluster.follower.consider())

    assert decisions[0].served < 0.7, "what was published knows no C"
    assert decisions[0].drifted
    assert Action.PUBLISHED in [decision.action for decision in decisions]
    assert decisions[-1].served == 1.0
    assert decisions[-1].action is Action.KEPT


class Stream:
    """A stream that is away now and then; it stops the follower at its end."""

    def __init__(self, *pages):
        self.pages = list(pages)
        self.stopped = threading.Event()
        self.rewound = 0

    def read_new(self, wait_s):
        if not self.pages:
            self.stopped.set()
            return []
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        return page

    def rewind(self):
        self.rewound += 1


def test_an_absence_of_redis_is_waited_for(cluster, monkeypatch):
    monkeypatch.setattr("services.training.follow._RETRY_S", 0.001)
    records = many("AB", 30)
    stream = Stream(records[:30], StreamAway("gone"), StreamAway("gone"), records)
    cluster.now_s = 1e6
    cluster.trainer.accuracy = {"1": 0.5}
    decisions = []
    follow(stream, cluster.follower, stream.stopped, decisions.append)

    assert stream.rewound == 2
    assert [d.action for d in decisions] == [Action.PUBLISHED]
    assert decisions[0].trained_on + decisions[0].held_out == 30, "nothing counted twice"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"held_out": 0}, "held_out is 0"),
        ({"window": 10}, "window is 10; it must hold held_out and train_every, 300"),
        ({"min_gain": -0.1}, "min_gain"),
        ({"drift": 2.0}, "drift"),
        ({"idle_timeout_s": 0.0}, "idle_timeout_s"),
    ],
)
def test_settings_that_make_no_sense(values, words):
    with pytest.raises(InvalidFollow, match=words):
        FollowSettings(**values)


def test_scores_count_every_forecast_and_the_end():
    """A, B over and over: the next agent is always right, the end never foreseen after one life."""

    class Alternates:
        version, agents, wants_hidden_states = "x", ("A", "B"), False

        def forecast(self, prefixes, hidden_states):
            rows = np.zeros((len(prefixes), 2, 3), dtype=np.float32)
            for row, prefix in zip(rows, prefixes, strict=True):
                nexts = ("B", "A") if prefix[-1] == "A" else ("A", "B")
                for step, agent in enumerate(nexts):
                    row[step, self.agents.index(agent)] = 1.0
            return rows

    window = TraceWindow(1, idle_timeout_s=1.0)
    window.add(workflow("w", "ABAB", at_s=0.0))
    window.advance(1e6)
    (trace,) = window.finished

    score = score_predictor(Alternates(), [trace], steps=2)

    assert score.accuracy == (3 / 4, 2 / 3)
    assert score.mean_accuracy == pytest.approx((3 / 4 + 2 / 3) / 2)
