"""Networks trained on traced workflows, with their hidden states and without."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="networks need torch")

from pbkv.errors import InvalidCheckpoint, InvalidTrace, SettingsError
from pbkv.predict import make_predictor
from pbkv.predict.checkpoint import read_hidden_source
from pbkv.predict.network_predictor import NetworkPredictor
from pbkv.predict.reload import CheckpointWatch, check_fit
from pbkv.predict.training import TrainingPlan
from pbkv.settings import PolicySettings
from pbkv.sglang.predictors import with_checkpoint
from pbkv.trace import TracedCall
from services.training.command import make_trainer
from services.training.follow import Follower, FollowSettings
from services.training.network_trainer import NetworkTrainer
from services.training.publication import CheckpointFolder
from services.training.window import TraceWindow
from tests.unit.services.training.traffic import many, workflow

PLAN = TrainingPlan(epochs=30)


def served(count, *, hidden=True, seed=1):
    """A Judge whose hidden state says whether Writer or Editor is next; the agents do not."""
    rng = np.random.default_rng(seed)
    window = TraceWindow(count, idle_timeout_s=1.0)
    chosen = rng.integers(0, 2, count)
    for i, choice in enumerate(chosen):
        agents = ["Judge", ("Writer", "Editor")[choice]]
        window.add(workflow(f"w{i:04d}", agents, at_s=10.0 * i))
    window.advance(1e9)
    found = []
    for trace, choice in zip(window.finished, chosen, strict=True):
        states = [rng.normal(0, 0.3, 8).astype(np.float32) for _ in trace.calls]
        states[0][0] += 4.0 * choice - 2.0
        calls = tuple(
            TracedCall(call.record, state if hidden else None)
            for call, state in zip(trace.calls, states, strict=True)
        )
        found.append(replace(trace, calls=calls))
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "000001"
    trainer = NetworkTrainer("graphsage", plan=PLAN)
    trainer.fit(served(200), path)
    return trainer, path


def test_what_only_the_hidden_state_tells_is_learnt(trained):
    trainer, path = trained

    with_states = trainer.score(path, served(60, seed=2))
    without = trainer.score(path, served(60, hidden=False, seed=2))

    assert with_states.accuracy[0] > 0.95
    assert without.accuracy[0] < 0.9


def test_agents_never_seen_in_training_are_forecast_all_the_same(trained):
    _, path = trained
    predictor = NetworkPredictor.load(path, steps=3)
    unseen = [("Nobody",), ("Judge", "Somebody new", "Nobody")]

    answers = predictor.forecast(unseen, np.zeros((2, 8), dtype=np.float32))

    assert answers.shape == (2, 3, len(predictor.agents) + 1)
    np.testing.assert_allclose(answers.sum(axis=2), 1.0, atol=1e-4)


def test_its_checkpoint_does_not_fit_another_model(trained):
    _, path = trained
    predictor = NetworkPredictor.load(path, steps=3)
    check_fit(predictor, 8)

    with pytest.raises(InvalidCheckpoint, match="of 8 numbers; this model's have 64"):
        check_fit(predictor, 64)


def test_without_any_hidden_state_it_learns_from_the_agents(tmp_path):
    trainer = NetworkTrainer("graphsage", plan=TrainingPlan(epochs=10))
    trainer.fit(served(60, hidden=False), tmp_path / "agents")

    assert not NetworkPredictor.load(tmp_path / "agents", steps=3).wants_hidden_states
    assert trainer.score(tmp_path / "agents", served(20, hidden=False)).accuracy[0] > 0.3


def test_hidden_states_of_two_models_cannot_be_mixed(tmp_path):
    workflows = served(20)
    other = TracedCall(workflows[0].calls[0].record, np.zeros(4, dtype=np.float32))
    workflows[0] = replace(workflows[0], calls=(other, *workflows[0].calls[1:]))

    with pytest.raises(InvalidTrace, match="of 4 and 8 numbers"):
        NetworkTrainer("graphsage").fit(workflows, tmp_path / "mixed")


def test_a_checkpoint_says_which_layer_it_learnt_from_and_two_cannot_be_mixed(tmp_path):
    workflows = [
        replace(w, calls=tuple(replace(call, hidden_source="layer 15") for call in w.calls))
        for w in served(20)
    ]
    trainer = NetworkTrainer("graphsage", plan=TrainingPlan(epochs=1))
    trainer.fit(workflows, tmp_path / "fifteen")

    assert read_hidden_source(tmp_path / "fifteen") == "layer 15"
    with pytest.raises(InvalidTrace, match="of layer 15 and post-norm: train on those of one"):
        trainer.fit(workflows[:10] + served(10), tmp_path / "mixed")


def test_too_few_workflows(tmp_path):
    with pytest.raises(InvalidTrace, match="1 finished workflows are too few"):
        NetworkTrainer("graphsage").fit(served(1), tmp_path / "few")


def test_an_unknown_family_lists_the_choices():
    with pytest.raises(SettingsError, match=r"known: .*graphsage"):
        make_trainer("oracle")


def test_a_network_is_published_as_a_folder_and_served_from_it(tmp_path):
    folder = CheckpointFolder(tmp_path)
    settings = PolicySettings(predictor="checkpoint", predictor_checkpoint=str(tmp_path))
    with pytest.raises(SettingsError, match="needs predictor_checkpoint"):
        make_predictor(with_checkpoint(settings))
    watch = CheckpointWatch(tmp_path)
    trainer = make_trainer("mlp", "tiny", epochs=2)
    follower = Follower(
        trainer, folder, FollowSettings(window=40, held_out=10, train_every=20), clock=lambda: 1e9
    )
    follower.take(many("AB", 30))

    assert follower.consider().version == "000001"
    assert watch.changed() == tmp_path / "versions" / "000001"
    predictor = make_predictor(with_checkpoint(settings))
    assert set("AB") < set(predictor.agents)
    assert predictor.version.startswith("mlp-tiny")
    assert not list((tmp_path / "incoming").iterdir())
