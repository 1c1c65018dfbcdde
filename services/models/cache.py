"""The folder of built models: each is built once, by one process, and appears whole."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from services.models.errors import ModelBuildError
from services.models.recipe import ModelRecipe, Progress

CACHE_FORMAT = 1
MARKER_NAME = ".pbkv-model.json"


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """`$PBKV_CACHE_DIR`, else `$XDG_CACHE_HOME/pbkv`, else `~/.cache/pbkv`."""
    chosen = environ.get("PBKV_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    xdg = environ.get("XDG_CACHE_HOME")
    # The XDG rules say that a relative value is to be ignored.
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "pbkv"
    return Path.home() / ".cache" / "pbkv"


def build_once(recipe: ModelRecipe, cache_dir: Path, progress: Progress) -> Path:
    """The folder of `recipe` under `cache_dir`, built first if it is missing or outdated.

    Safe to call from several processes at once: one builds, the others wait and use its
    folder. A build that dies leaves no folder under the model's name.
    """
    models_dir = cache_dir / "models"
    folder = models_dir / recipe.name
    if _is_current(folder, recipe):
        return folder
    try:
        models_dir.mkdir(parents=True, exist_ok=True)
        with _locked(models_dir / f".{recipe.name}.lock"):
            if not _is_current(folder, recipe):
                _build_into_place(recipe, folder, progress)
    except OSError as error:
        raise ModelBuildError(
            f"cannot build model {recipe.name} in {models_dir}: {error}"
        ) from error
    return folder


def _is_current(folder: Path, recipe: ModelRecipe) -> bool:
    try:
        marker = json.loads((folder / MARKER_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(marker == _marker(recipe))


def _marker(recipe: ModelRecipe) -> dict[str, object]:
    return {"cache_format": CACHE_FORMAT, "model": recipe.name, "version": recipe.version}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The kernel drops the lock with the file descriptor, so a killed builder blocks nobody.
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_into_place(recipe: ModelRecipe, folder: Path, progress: Progress) -> None:
    prefix = f".{recipe.name}.partial-"
    # We hold the lock, so every partial folder of this model belongs to a dead builder.
    for leftover in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover)
    partial = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        recipe.build(partial, progress)
        (partial / MARKER_NAME).write_text(json.dumps(_marker(recipe)), encoding="utf-8")
        _apply_umask(partial)
        if folder.exists():
            shutil.rmtree(folder)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _apply_umask(folder: Path) -> None:
    # mkdtemp and safetensors write for the owner alone; servers may run as another user.
    mask = os.umask(0)
    os.umask(mask)
    folder.chmod(0o777 & ~mask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~mask)
