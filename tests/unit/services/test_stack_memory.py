"""The estimate of what a stack needs, and what a container leaves of the machine's memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.stack.memory import (
    ENGINE_BYTES,
    STACK_BYTES,
    available_bytes,
    kv_bytes_per_token,
    needed_bytes,
)

SMOLLM2 = {
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
}
GIB = 1 << 30


@pytest.mark.parametrize(
    ("config", "size"),
    [
        (SMOLLM2, 30 * 2 * 3 * 64 * 2),
        ({**SMOLLM2, "head_dim": 128}, 30 * 2 * 3 * 128 * 2),
        ({**SMOLLM2, "num_key_value_heads": None}, 30 * 2 * 9 * 64 * 2),
    ],
)
def test_kv_size_of_a_token(config: dict[str, int], size: int) -> None:
    assert kv_bytes_per_token(config) == size


def test_needed_memory_counts_weights_and_both_tiers_per_replica(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": SMOLLM2}))
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    needed = needed_bytes(tmp_path, replicas=3, kv_tokens=100, host_ratio=2)
    assert needed == STACK_BYTES + 3 * (ENGINE_BYTES + 1000 + 23_040 * 300)


def test_a_container_limit_counts_and_its_file_cache_does_not(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{GIB}\n")
    (tmp_path / "memory.current").write_text(f"{GIB // 2}\n")
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {GIB // 4}\n")
    assert available_bytes(tmp_path) == 3 * GIB // 4


def test_without_a_limit_the_machine_decides(tmp_path: Path) -> None:
    machine = available_bytes(tmp_path / "no cgroup here")
    (tmp_path / "memory.max").write_text("max\n")
    assert available_bytes(tmp_path) == pytest.approx(machine, rel=0.5)
    assert machine > 0
