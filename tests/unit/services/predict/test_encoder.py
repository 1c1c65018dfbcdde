"""Hidden states of prompts, with a small random model."""

import numpy as np
import pytest

from pbkv.hidden_source import POST_NORM
from pbkv.predict.data import PromptedCall, PromptedWorkflow
from services.models import resolve_model
from services.predict.encoder import PromptEncoder
from services.predict.state_cache import StateCache

WORKFLOW = PromptedWorkflow(
    "w",
    "You check claims.",
    "Claim: water is wet.\n",
    (
        PromptedCall("A", "A note on water.\n", "A:"),
        PromptedCall("B", "Another note, a longer one.\n", "B:"),
        PromptedCall("A", "", "A:"),
    ),
)


@pytest.fixture(scope="module")
def model_path():
    return resolve_model("tiny", progress=lambda line: None)


@pytest.fixture(scope="module")
def encoder(model_path):
    return PromptEncoder(model_path, layers=(1,)).to_float32()


def test_every_prompt_has_the_state_it_would_have_alone(encoder):
    (states,) = encoder.encode([WORKFLOW])

    assert states.shape == (3, 2, encoder.hidden_size)
    for step in range(3):
        alone = encoder.encode_alone(WORKFLOW, step)
        np.testing.assert_allclose(states[step, -1].astype(np.float32), alone, atol=0.02)
    assert not np.allclose(states[0, -1], states[1, -1], atol=0.1)


def test_a_workflow_does_not_depend_on_the_others_of_its_batch(encoder):
    short = PromptedWorkflow("s", "", "Claim: x.\n", WORKFLOW.calls[:1])

    together = encoder.encode([short, WORKFLOW])[0]
    (alone,) = encoder.encode([short])

    np.testing.assert_allclose(together, alone, atol=0.02)


def test_a_layer_that_the_model_has_not_is_refused(model_path):
    with pytest.raises(ValueError, match="layers are 1 to"):
        PromptEncoder(model_path, layers=(1000,))


def test_states_are_computed_once(model_path, tmp_path, monkeypatch):
    first = StateCache(tmp_path, model_path, ()).states([WORKFLOW])
    monkeypatch.setattr(PromptEncoder, "__init__", None)

    again = StateCache(tmp_path, model_path, ())

    assert again.sources == (POST_NORM,)
    np.testing.assert_array_equal(again.states([WORKFLOW])[0], first[0])
    assert len(list(tmp_path.iterdir())) == 1
