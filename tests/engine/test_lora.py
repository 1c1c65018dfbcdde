"""LoRA on: adapters and the base model share one cache and never each other's entries."""

import json

import pytest
import torch
from safetensors.torch import save_file

from pbkv.settings import PolicySettings
from services.models import resolve_model

RANK = 4


@pytest.fixture(scope="module")
def adapter(tmp_path_factory):
    """Random weights on attention's output, large enough to change what is said."""
    folder = tmp_path_factory.mktemp("adapter")
    model = json.loads((resolve_model("tiny") / "config.json").read_text())
    hidden, width = model["hidden_size"], model["num_attention_heads"] * model["head_dim"]
    generator = torch.Generator().manual_seed(1)
    weights = {}
    for layer in range(model["num_hidden_layers"]):
        name = f"base_model.model.model.layers.{layer}.self_attn.o_proj"
        weights[f"{name}.lora_A.weight"] = torch.randn(RANK, width, generator=generator)
        weights[f"{name}.lora_B.weight"] = torch.randn(hidden, RANK, generator=generator)
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": 64,
        "target_modules": ["o_proj"],
        "base_model_name_or_path": "tiny",
        "bias": "none",
        "task_type": "CAUSAL_LM",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def engine(start_engine, adapter):
    extra = ("--skip-server-warmup", "--enable-lora", "--lora-backend", "torch_native")
    extra += ("--lora-paths", f"accent={adapter}", "--max-loras-per-batch", "2")
    with start_engine(policy=PolicySettings(policy="lae"), extra_args=extra) as client:
        yield client


def ask(engine, prompt, lora):
    body = engine.body(prompt, "w", max_new_tokens=12)
    if lora:
        body["lora_path"] = "accent"
    answer = engine.http.post("/generate", json=body)
    answer.raise_for_status()
    return answer.json()["output_ids"], answer.json()["meta_info"]["cached_tokens"]


def test_adapter_and_base_model_hit_their_own_cache_only(engine, prompts):
    prompt = prompts.new(500)
    base, base_hit = ask(engine, prompt, lora=False)
    tuned, tuned_hit = ask(engine, prompt, lora=True)

    assert (base_hit, tuned_hit) == (0, 0), "the adapter did not take the base model's cache"
    assert tuned != base
    assert ask(engine, prompt, lora=False) == (base, 496)
    assert ask(engine, prompt, lora=True) == (tuned, 496)


def test_both_are_evicted_as_the_workflow_s(engine, prompts):
    kept = prompts.new(700)
    ask(engine, kept, lora=True)
    for i in range(6):
        engine.generate(prompts.new(900), f"over-{i}", end=True)

    assert ask(engine, kept, lora=True)[1] == 688
