"""`tiny` and `bench`: complete model folders, alike on every machine, that say something."""

import hashlib
import json
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from services.models import resolve_model
from services.models.bench import SHAPE as BENCH_SHAPE
from services.models.tiny import SHAPE as TINY_SHAPE
from services.models.tokenizer import TURN_END_ID, VOCAB_SIZE


def silent(line: str) -> None:
    del line


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return resolve_model("tiny", tmp_path_factory.mktemp("cache"), silent)


def test_two_builds_hold_the_same_bytes(tiny: Path, tmp_path: Path) -> None:
    started_s = time.perf_counter()
    again = resolve_model("tiny", tmp_path, silent)
    assert time.perf_counter() - started_s < 5
    assert _digests(again) == _digests(tiny)


def test_tokenizer_fills_its_vocabulary_and_round_trips(tiny: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    assert len(tokenizer) == VOCAB_SIZE
    for text in ("The judge reads the evidence.", "naïve 你好 🙂\n\tx = {1}", ""):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.eos_token_id == TURN_END_ID


def test_chat_template_extends_the_last_prompt(tiny: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    first = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert first == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    chat += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Bye"}]
    second = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert second.startswith(first + "Hello.<|im_end|>\n")


@torch.no_grad()
def test_greedy_text_is_finite_varied_and_depends_on_the_prompt(tiny: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    outputs = []
    for seed in range(4):
        prompt = torch.randint(
            3, VOCAB_SIZE, (1, 50), generator=torch.Generator().manual_seed(seed)
        )
        assert torch.isfinite(model(prompt).logits).all()
        tokens = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=32, do_sample=False
        )
        outputs.append(tuple(tokens[0, 50:].tolist()))
        assert len(set(outputs[-1])) > 16
    assert len(set(outputs)) == 4


@torch.no_grad()
def test_early_tokens_reach_the_answer(tiny: Path) -> None:
    # Else a wrong cache entry would go unseen by every test that compares answers.
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randint(3, VOCAB_SIZE, (1, 64), generator=generator).repeat(2, 1)
    prompts[1, :32] = torch.randint(3, VOCAB_SIZE, (32,), generator=generator)
    logits = model(prompts).logits[:, -1]
    assert (logits[0] - logits[1]).std() > 0.3 * logits[0].std()


def test_config_tells_what_the_engine_must_know(tiny: Path) -> None:
    config = json.loads((tiny / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert config["max_position_embeddings"] == 32768
    assert config["eos_token_id"] == TURN_END_ID
    assert TINY_SHAPE.kv_bytes_per_token() == 512


def test_bench_is_small_and_has_little_attention() -> None:
    # The two things that keep decode cheap on a CPU; a change needs a new measurement.
    assert BENCH_SHAPE.fingerprint() == "2x768x6144-2:1x64-32768-s0"
    assert BENCH_SHAPE.kv_bytes_per_token() == 512


def test_bench_loads(tmp_path: Path) -> None:
    folder = resolve_model("bench", tmp_path, silent)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100e6


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
