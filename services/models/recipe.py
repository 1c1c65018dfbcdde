"""What a model that this project can build by itself has to say about itself."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Progress = Callable[[str], None]
"""Receives one short line per step of a long build."""


@dataclass(frozen=True)
class ModelRecipe:
    """How to build one named model.

    `build(folder, progress)` fills an existing empty folder with a model that SGLang loads,
    and raises ModelBuildError if it cannot. `version` changes whenever the files it writes
    would change: a cached folder of another version is built again.
    """

    name: str
    version: str
    summary: str
    build: Callable[[Path, Progress], None]
