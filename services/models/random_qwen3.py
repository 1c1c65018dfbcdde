"""Qwen3 models with random weights: a real architecture of any size, without a download."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from services.models.shape import Qwen3Shape
from services.models.tokenizer import TURN_END_ID, VOCAB_SIZE, save_chat_tokenizer


def save_random_qwen3(shape: Qwen3Shape, folder: Path) -> None:
    """Write config, tokenizer and bf16 weights; the same shape gives the same bytes."""
    (folder / "config.json").write_text(json.dumps(_config(shape), indent=2), encoding="utf-8")
    save_chat_tokenizer(folder, shape.max_tokens)
    save_file(_weights(shape), folder / "model.safetensors", metadata={"format": "pt"})


def _config(shape: Qwen3Shape) -> dict[str, object]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": shape.max_tokens,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "eos_token_id": TURN_END_ID,
        "bos_token_id": None,
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
    }


def _weights(shape: Qwen3Shape) -> dict[str, torch.Tensor]:
    """Weights scaled so that activations keep unit variance through every block.

    Keys and values then weigh as much as the residual stream, so a wrong cache entry changes
    the tokens that come out. The head is not tied to the embedding: a tied random model
    repeats its last token for ever.
    """
    generator = torch.Generator().manual_seed(shape.seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        values = torch.randn(rows, columns, generator=generator) * columns**-0.5
        return values.to(torch.bfloat16)

    def ones(size: int) -> torch.Tensor:
        return torch.ones(size, dtype=torch.bfloat16)

    embedding = torch.randn(VOCAB_SIZE, shape.hidden, generator=generator).to(torch.bfloat16)
    weights = {"model.embed_tokens.weight": embedding}
    q_size, kv_size = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for layer in range(shape.layers):
        at = f"model.layers.{layer}"
        weights[f"{at}.input_layernorm.weight"] = ones(shape.hidden)
        weights[f"{at}.self_attn.q_proj.weight"] = matrix(q_size, shape.hidden)
        weights[f"{at}.self_attn.k_proj.weight"] = matrix(kv_size, shape.hidden)
        weights[f"{at}.self_attn.v_proj.weight"] = matrix(kv_size, shape.hidden)
        weights[f"{at}.self_attn.o_proj.weight"] = matrix(shape.hidden, q_size)
        weights[f"{at}.self_attn.q_norm.weight"] = ones(shape.head_dim)
        weights[f"{at}.self_attn.k_norm.weight"] = ones(shape.head_dim)
        weights[f"{at}.post_attention_layernorm.weight"] = ones(shape.hidden)
        weights[f"{at}.mlp.gate_proj.weight"] = matrix(shape.intermediate, shape.hidden)
        weights[f"{at}.mlp.up_proj.weight"] = matrix(shape.intermediate, shape.hidden)
        weights[f"{at}.mlp.down_proj.weight"] = matrix(shape.hidden, shape.intermediate)
    weights["model.norm.weight"] = ones(shape.hidden)
    weights["lm_head.weight"] = matrix(VOCAB_SIZE, shape.hidden)
    return weights
