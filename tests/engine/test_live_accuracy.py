"""The forecasts of a served checkpoint are as good as those of the same network offline."""

import asyncio
import random
from itertools import pairwise

import pytest
import torch

from pbkv.predict.data import PromptedCall, PromptedWorkflow
from pbkv.predict.evaluation import split_traces
from pbkv.predict.families import make_network
from pbkv.predict.network_checkpoint import save_network
from pbkv.predict.training import TrainingPlan, train_network
from services.models import resolve_model
from services.predict.encoder import PromptEncoder
from services.predict.live import compare

TRAINING, SERVED = 300, 100


def told_workflow(name, rng):
    """Two to four calls; each prompt ends with the word that decides who is next."""
    agents = ["Judge", *rng.choices(["Left", "Right"], k=rng.randint(1, 3))]
    words = {"Left": "go left", "Right": "go right", None: "stop here"}
    calls = [
        PromptedCall(agent, f"Note {rng.randrange(1000)}.\n", f"Hint: {words[following]}")
        for agent, following in pairwise([*agents, None])
    ]
    return PromptedWorkflow(name, "Do what the hint says.", f"Case {name}.\n", tuple(calls))


@pytest.mark.slow
def test_live_accuracy_is_the_offline_accuracy(tmp_path, device):
    if device == "cuda":
        pytest.skip("the comparison chooses its device itself")
    rng = random.Random(7)
    workflows = [told_workflow(f"w{i}", rng) for i in range(TRAINING + SERVED)]
    model_path = resolve_model("tiny", progress=lambda line: None)
    encoder = PromptEncoder(model_path, layers=(1,))
    states = [encoder.encode([workflow])[0][:, 0] for workflow in workflows]
    split = split_traces([w.agents for w in workflows], states, train=TRAINING, test=SERVED)
    torch.manual_seed(0)
    network = make_network("graphsage", "", split.shape)
    train_network(
        network,
        split.training,
        split.validation,
        split.transitions,
        seed=0,
        plan=TrainingPlan(epochs=40, batch_size=64),
    )
    checkpoint = tmp_path / "checkpoint"
    save_network(checkpoint, network, "graphsage", "", split.vocabulary, "layer 1")

    found = asyncio.run(
        compare(
            checkpoint,
            workflows[TRAINING:],
            states[TRAINING:],
            model_path,
            # The model is far faster than a real one, and a forecast must not be late.
            answer_tokens=64,
        )
    )

    assert found.offline[0] > 0.9, "the hidden state says who is next; the agents alone do not"
    assert found.largest_difference <= 0.02
    assert found.paired_calls == found.calls, "the engine writes the state of every prompt"
    for live, pair in zip(found.live, found.paired, strict=True):
        # No forecast was late: the engine says what the network says of the engine's states.
        assert live == pytest.approx(pair.first)
        assert pair.same >= 0.98
    assert found.outcomes.get("failed", 0) == 0
