"""Names and paths become model folders, or one clear error."""

import subprocess
import sys
from pathlib import Path

import pytest

from services.models import RECIPES, resolve_model
from services.models.errors import ModelError, NotAModelFolderError, UnknownModelError


def test_unknown_name_lists_the_choices_and_says_that_a_path_will_do(tmp_path: Path) -> None:
    with pytest.raises(UnknownModelError) as caught:
        resolve_model("gpt-99", tmp_path)
    message = str(caught.value)
    assert "'gpt-99'" in message
    assert all(name in message for name in RECIPES)
    assert "path" in message
    assert list(tmp_path.iterdir()) == []


def test_empty_name_is_unknown_not_the_working_folder(tmp_path: Path) -> None:
    with pytest.raises(UnknownModelError):
        resolve_model("", tmp_path)


def test_folder_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAModelFolderError, match=r"no config\.json"):
        resolve_model(str(tmp_path), tmp_path)


def test_file_is_refused(tmp_path: Path) -> None:
    weights = tmp_path / "model.gguf"
    weights.touch()
    with pytest.raises(NotAModelFolderError):
        resolve_model(str(weights), tmp_path)


def test_folder_with_config_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert resolve_model("./tiny", tmp_path / "cache") == tmp_path / "tiny"
    assert not (tmp_path / "cache").exists()


def test_every_error_is_a_model_error() -> None:
    assert issubclass(UnknownModelError, ModelError)
    assert issubclass(NotAModelFolderError, ModelError)


def test_command_prints_the_folder_alone_on_stdout(tmp_path: Path) -> None:
    done = _command("tiny", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path}/models/tiny\n"
    assert "building the model tiny" in done.stderr


def test_command_answers_bad_input_with_one_line_and_status_2(tmp_path: Path) -> None:
    done = _command("gpt-99", tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def _command(model: str, cache_dir: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "services.models", model],
        cwd=Path(__file__).parents[4],
        env={"PBKV_CACHE_DIR": str(cache_dir), "HOME": str(cache_dir)},
        capture_output=True,
        text=True,
        check=False,
    )
