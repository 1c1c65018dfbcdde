"""A model is built once and appears whole, whatever happens to its builders."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from services.models.cache import MARKER_NAME, build_once, default_cache_dir
from services.models.errors import ModelBuildError
from services.models.recipe import ModelRecipe, Progress


def recipe(version: str = "1", seconds: float = 0.0) -> ModelRecipe:
    """Leaves one line in a log beside the cache for each build."""

    def build(folder: Path, progress: Progress) -> None:
        progress("building")
        (folder / "config.json").write_text("{}")
        time.sleep(seconds)
        (folder / "weights").write_text(version)
        with (folder.parents[1] / "builds").open("a") as log:
            log.write(f"{os.getpid()}\n")

    return ModelRecipe(name="toy", version=version, summary="", build=build)


def silent(line: str) -> None:
    del line


def builds(cache_dir: Path) -> int:
    log = cache_dir / "builds"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_second_call_uses_the_first_build(tmp_path: Path) -> None:
    lines: list[str] = []
    first = build_once(recipe(), tmp_path, lines.append)
    assert build_once(recipe(), tmp_path, lines.append) == first == tmp_path / "models" / "toy"
    assert builds(tmp_path) == 1
    assert lines == ["building"]


def test_new_version_replaces_the_folder(tmp_path: Path) -> None:
    folder = build_once(recipe("1"), tmp_path, silent)
    (folder / "stale").touch()
    build_once(recipe("2"), tmp_path, silent)
    assert (folder / "weights").read_text() == "2"
    assert not (folder / "stale").exists()


@pytest.mark.parametrize("marker", [None, "", "[]", '{"cache_format": 0}'])
def test_folder_without_a_valid_marker_is_built_again(tmp_path: Path, marker: str | None) -> None:
    folder = tmp_path / "models" / "toy"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    if marker is not None:
        (folder / MARKER_NAME).write_text(marker)
    build_once(recipe(), tmp_path, silent)
    assert (folder / "weights").read_text() == "1"
    assert json.loads((folder / MARKER_NAME).read_text())["version"] == "1"


def test_failed_build_leaves_nothing_and_keeps_the_old_model(tmp_path: Path) -> None:
    def fail(folder: Path, progress: Progress) -> None:
        (folder / "config.json").touch()
        raise ModelBuildError("no network")

    folder = build_once(recipe("1"), tmp_path, silent)
    broken = ModelRecipe(name="toy", version="2", summary="", build=fail)
    with pytest.raises(ModelBuildError, match="no network"):
        build_once(broken, tmp_path, silent)
    assert (folder / "weights").read_text() == "1"
    assert [path.name for path in folder.parent.iterdir() if "partial" in path.name] == []


def test_unwritable_cache_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "models").touch()
    with pytest.raises(ModelBuildError, match="cannot build model toy"):
        build_once(recipe(), tmp_path, silent)


def test_files_are_readable_by_other_users(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        folder = build_once(recipe(), tmp_path, silent)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in folder.iterdir())


def test_two_processes_at_once_build_once(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    slow = recipe(seconds=0.3)
    builders = [fork.Process(target=build_once, args=(slow, tmp_path, silent)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(timeout=20)
    assert [builder.exitcode for builder in builders] == [0, 0]
    assert builds(tmp_path) == 1


def test_killed_builder_blocks_nobody_and_leaves_no_half_model(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    builder = fork.Process(target=build_once, args=(recipe(seconds=60), tmp_path, silent))
    builder.start()
    models = tmp_path / "models"
    deadline = time.monotonic() + 20
    while not list(models.glob(".toy.partial-*/config.json")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert builder.pid is not None
    os.kill(builder.pid, signal.SIGKILL)
    builder.join(timeout=20)
    assert not (models / "toy").exists()

    build_once(recipe(), tmp_path, silent)
    assert (models / "toy" / "weights").exists()
    assert list(models.glob(".toy.partial-*")) == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"PBKV_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/pbkv")),
        ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache/pbkv"),
        ({}, Path.home() / ".cache/pbkv"),
    ],
)
def test_default_cache_folder(environ: dict[str, str], expected: Path) -> None:
    assert default_cache_dir(environ) == expected
