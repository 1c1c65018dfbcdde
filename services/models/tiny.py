"""`tiny`: a two-layer random Qwen3 for tests, built in a fraction of a second."""

from pathlib import Path

from services.models.recipe import ModelRecipe, Progress
from services.models.shape import Qwen3Shape

# Four heads over two KV heads, so that TP=2 splits both.
SHAPE = Qwen3Shape(layers=2, hidden=128, intermediate=256, heads=4, kv_heads=2, head_dim=32)


def _build(folder: Path, progress: Progress) -> None:
    # Imports torch: seconds that a name already built must not pay.
    from services.models.random_qwen3 import save_random_qwen3

    progress("building the model tiny (2 MB, random weights)")
    save_random_qwen3(SHAPE, folder)


TINY = ModelRecipe(
    name="tiny",
    version=f"1-{SHAPE.fingerprint()}",
    summary="random two-layer Qwen3 for tests",
    build=_build,
)
