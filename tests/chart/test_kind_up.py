"""``scripts/kind_up.sh`` with stand-ins for the tools it calls: its steps and what it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("docker", "kind", "kubectl", "helm")
NEEDED = ("dirname", "grep", "cat", "bash")
MEMORY_BYTES = 8 << 30


class Desk:
    """A PATH with nothing but a few commands and the stand-ins, which note how they are called."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "calls"
        self.path = folder / "bin"
        self.path.mkdir()
        for name in NEEDED:
            (self.path / name).symlink_to(Path("/usr/bin") / name)
        for name in TOOLS:
            self.tool(name)

    def tool(self, name: str, answer: str = "") -> None:
        script = f'#!/bin/bash\necho "{name} $*" >> "{self._log}"\n{answer or self._answer(name)}\n'
        (self.path / name).write_text(script)
        (self.path / name).chmod(0o755)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", str(ROOT / "scripts/kind_up.sh"), *words],
            capture_output=True,
            text=True,
            env={"PATH": str(self.path)},
            timeout=60,
            check=False,
        )

    def calls(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def _answer(self, name: str) -> str:
        return f"echo {MEMORY_BYTES}" if name == "docker" else ""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_it_builds_loads_installs_and_sends_a_request(desk: Desk) -> None:
    done = desk.run()
    assert done.returncode == 0, done.stderr
    steps = [call for call in desk.calls() if not call.startswith("docker info")]
    assert [" ".join(step.split()[:2]) for step in steps] == [
        "docker build",
        "docker build",
        "kind get",
        "kind create",
        "kind load",
        "helm upgrade",
        "helm test",
    ]
    assert "port-forward svc/pbkv-router 8000:80" in done.stdout


def test_a_cluster_that_is_there_is_used_again(desk: Desk) -> None:
    desk.tool("kind", 'if [[ $1 == get ]]; then echo "pbkv"; fi')
    assert desk.run().returncode == 0
    assert not [call for call in desk.calls() if call.startswith("kind create")]


def test_delete_removes_the_cluster_and_does_nothing_else(desk: Desk) -> None:
    assert desk.run("delete").returncode == 0
    assert desk.calls() == ["docker info", "kind delete cluster --name pbkv"]


def test_all_that_is_missing_is_named_at_once(desk: Desk) -> None:
    (desk.path / "kind").unlink()
    (desk.path / "helm").unlink()
    done = desk.run()
    assert (done.returncode, done.stderr) == (
        1,
        "error: not installed: kind helm; see docs/kubernetes.md\n",
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("exit 1", "docker does not answer"),
        ("echo 2147483648", "docker has 2048 MiB of memory; the stack needs 6 GiB"),
    ],
)
def test_a_docker_that_cannot_do_it_is_one_line(desk: Desk, answer: str, why: str) -> None:
    desk.tool("docker", answer)
    done = desk.run()
    assert done.returncode == 1
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert not [call for call in desk.calls() if "build" in call]


def test_an_unknown_argument_is_refused_before_anything_is_done(desk: Desk) -> None:
    done = desk.run("remove")
    assert done.returncode == 1
    assert "unknown argument remove; usage: scripts/kind_up.sh [delete]" in done.stderr
    assert desk.calls() == []
