"""A checkpoint on the states of a middle layer, published while the engine already serves.

The engine starts with an empty folder of checkpoints. It chunks prompts of more than 256 tokens and
mixes decoding rows into prefill batches; the reference is transformers, one prompt at a time.
"""

import pytest
import torch

from pbkv.hidden_source import POST_NORM
from pbkv.predict.families import make_network
from pbkv.predict.network import Shape
from pbkv.predict.network_checkpoint import save_network
from pbkv.predict.vocabulary import Vocabulary
from pbkv.settings import PolicySettings
from pbkv.trace.hidden import read_states
from services.models import resolve_model
from services.training.publication import CheckpointFolder, fit_into
from tests.engine.test_hidden_states import assert_is_last_token
from tests.waiting import wait_until

pytest.importorskip("pyarrow", reason="hidden states are written as Parquet")

LAYER = 1
AGENTS = Vocabulary(["Planner", "Coder"])


def publish(folder, source, hidden_size=128):
    network = make_network("graphsage", "", Shape(len(AGENTS), 3, hidden_size))

    def save(path):
        save_network(path, network, "graphsage", "", AGENTS, source)

    return folder.publish(fit_into(folder, "", save), {})


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    return CheckpointFolder(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    return tmp_path_factory.mktemp("hidden")


@pytest.fixture(scope="module")
def engine(start_engine, checkpoints, hidden):
    policy = PolicySettings(
        policy="he",
        predictor="checkpoint",
        predictor_checkpoint=str(checkpoints.folder),
        predictor_reload_s=0.1,
        hidden_source=f"layer {LAYER}",
        trace_hidden_dir=str(hidden),
        trace_hidden_flush_s=0.1,
    )
    extra_args = ("--skip-server-warmup", "--enable-mixed-chunk")
    with start_engine(policy=policy, chunked_prefill_size=256, extra_args=extra_args) as client:
        yield client


@pytest.fixture(scope="module")
def reference():
    """A function from a prompt to that layer's states of all its tokens, (tokens, D)."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        resolve_model("tiny"), dtype=torch.float32
    ).eval()

    def states(prompt):
        with torch.inference_mode():
            output = model(torch.tensor([prompt]), output_hidden_states=True)
        return output.hidden_states[LAYER][0].numpy()

    return states


def traced(hidden, request_ids):
    found = {}

    def all_there():
        if any(hidden.glob("hidden-*.parquet")):
            found.update({state.request_id: state for state in read_states(hidden)})
        return found.keys() >= set(request_ids)

    wait_until(all_there)
    return found


def test_states_are_those_of_the_layer_whatever_the_batch(engine, hidden, reference, prompts):
    """One prompt in four chunks, and five at once of which one is cut."""
    asked = {"long": prompts.new(900)}
    body = engine.body(asked["long"], "w-long", "Planner") | {"rid": "long"}
    engine.http.post("/generate", json=body).raise_for_status()
    together = {f"mixed-{i}": prompts.new(n) for i, n in enumerate((33, 64, 200, 17, 90))}
    bodies = [engine.body(ids, f"w-{name}", "Planner") for name, ids in together.items()]
    batch = {
        "rid": list(together),
        "input_ids": list(together.values()),
        "sampling_params": [each["sampling_params"] for each in bodies],
    }
    engine.http.post("/generate", json=batch).raise_for_status()
    asked |= together

    found = traced(hidden, asked)

    for name, prompt in asked.items():
        assert found[name].source == f"layer {LAYER}"
        # After one layer of a random model, equal tokens have states that are not far apart.
        rows = reference(prompt)
        assert_is_last_token(found[name].hidden_state, rows, len(prompt), others_from=0.03)
    assert engine.metric("pbkv_trace_hidden_states_total", outcome="absent") == 0


def test_nothing_is_forecast_until_a_checkpoint_of_that_layer_comes(engine, checkpoints, prompts):
    def forecasts():
        return engine.metric("pbkv_forecasts_total", outcome="applied")

    engine.generate(prompts.new(40), "before", "Planner")
    assert forecasts() == 0
    assert engine.metric("pbkv_forecasts_total", outcome="failed") == 0

    publish(checkpoints, POST_NORM)
    wait_until(lambda: engine.metric("pbkv_predictor_reloads_total", outcome="refused") == 1)
    publish(checkpoints, f"layer {LAYER}")
    wait_until(lambda: engine.metric("pbkv_predictor_reloads_total", outcome="applied") == 1)
    engine.generate(prompts.new(40), "after", "Planner", max_new_tokens=32)

    wait_until(lambda: forecasts() > 0)
    assert engine.metric("pbkv_forecasts_total", outcome="failed") == 0


def test_the_answers_are_those_of_stock(engine, stock, prompts):
    """Handing out a layer leaves the model's own output as it was."""
    prompt = prompts.new(300)

    assert engine.generate(prompt, "same", "Coder").output_ids == stock.generate(prompt).output_ids
