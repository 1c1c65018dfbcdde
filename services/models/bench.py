"""`bench`: a random Qwen3 whose prefill and decode cost stand to each other as on a GPU.

Where the paper ran, 1,000 tokens of prefill cost about 24 decode steps. A model with a
GPU model's proportions costs far less on a CPU, because SGLang's torch_native attention
handles one sequence at a time in a decode step and so makes decode dear; a better hit rate
would then not show in latency. Two things bring the proportion back: attention as small as
it goes (one KV head, two layers), and a wide MLP, whose cost per prefill token and per
decode step is set by arithmetic and by reading weights, as on a GPU.

Measured with one OMP thread on a CPU with avx512_bf16, contexts of 1,000 tokens: 1,000
tokens of prefill cost 355 ms; a decode step 11, 14 and 19 ms at a batch of 1, 4 and 8,
that is 31, 25 and 19 steps. A CPU without bf16 instructions has another proportion:
measure it there.
"""

from pathlib import Path

from services.models.recipe import ModelRecipe, Progress
from services.models.shape import Qwen3Shape

SHAPE = Qwen3Shape(layers=2, hidden=768, intermediate=6144, heads=2, kv_heads=1, head_dim=64)


def bench_recipe(name: str, shape: Qwen3Shape) -> ModelRecipe:
    """A random model of another shape, for a CPU whose proportion differs."""

    def build(folder: Path, progress: Progress) -> None:
        # Imports torch: seconds that a name already built must not pay.
        from services.models.random_qwen3 import save_random_qwen3

        progress(f"building the model {name} (random weights, shape {shape.fingerprint()})")
        save_random_qwen3(shape, folder)

    return ModelRecipe(
        name=name,
        version=f"1-{shape.fingerprint()}",
        summary="random Qwen3 with a GPU's proportion of prefill to decode cost",
        build=build,
    )


BENCH = bench_recipe("bench", SHAPE)
