"""Models by name: built on demand into a cache folder, so that no run starts with a chore."""

import os
import sys
from pathlib import Path

from services.models.bench import BENCH
from services.models.cache import build_once, default_cache_dir
from services.models.errors import NotAModelFolderError, UnknownModelError
from services.models.recipe import Progress
from services.models.smollm2 import SMOLLM2
from services.models.tiny import TINY

RECIPES = {recipe.name: recipe for recipe in (SMOLLM2, TINY, BENCH)}


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def resolve_model(
    name_or_path: str, cache_dir: Path | None = None, progress: Progress = _to_stderr
) -> Path:
    """The absolute folder of a model, built first if it is one of `RECIPES`.

    A name of `RECIPES` wins over a folder of the same name; write `./tiny` for the folder.
    Raises a subclass of ModelError.
    """
    recipe = RECIPES.get(name_or_path)
    if recipe is not None:
        return build_once(recipe, cache_dir or default_cache_dir(os.environ), progress)
    folder = Path(name_or_path).expanduser()
    if not name_or_path or not folder.exists():
        raise UnknownModelError(
            f"unknown model {name_or_path!r}: choose one of {', '.join(sorted(RECIPES))},"
            " or give the path of a model folder"
        )
    if not (folder / "config.json").is_file():
        raise NotAModelFolderError(f"{folder} is not a model folder: it has no config.json")
    return folder.absolute()
