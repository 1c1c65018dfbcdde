"""The public data behind the workloads: pinned by commit and hash, fetched, never shipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from loadgen.download import download
from loadgen.errors import BadLoad
from pbkv.workload.data import HOVER_FILE, SWEBENCH_FILE
from pbkv.workload.financebench import DATA_FILE


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file. ``path`` is where ``--data`` looks for it, ``host_path`` what follows the host."""

    path: str
    host_path: str
    sha256: str
    num_bytes: int
    licence: str


SOURCE = "https://raw.githubusercontent.com"

DATA_SETS: dict[str, DataFile] = {
    "hover": DataFile(
        HOVER_FILE,
        "hover-nlp/hover/39b84697f196308f398a251a7aea9b82ae0f0562/data/hover/"
        "hover_dev_release_v1.1.json",
        "67c14858f2d7fcdb96b6fe3d538ffcd6f76e3ba594aa2c0cd4359f601101e89d",
        2_153_439,
        "MIT",
    ),
    "financebench": DataFile(
        DATA_FILE,
        "patronus-ai/financebench/cc39aeb4afdf33909ee1412188bf89035950c2eb/data/"
        "financebench_open_source.jsonl",
        "a5a2aa673e573e55675fc3c0f9aa38c1cf59d2abc91edb077534f71f10a71877",
        929_848,
        "CC BY-NC 4.0: not for commercial use",
    ),
}

_NOT_PUBLISHED = {
    "swebench": (
        "the call lengths of agents on SWE-bench are not published as a file; without one the "
        f"workload uses a sample fitted to them. Lengths of your own go to {SWEBENCH_FILE}, and "
        "captured traces need no data: --workload FILE"
    )
}


def check_names(names: Sequence[str]) -> None:
    """Raises :class:`BadLoad` for a workload of which there is nothing to fetch."""
    for name in names:
        if name in _NOT_PUBLISHED:
            raise BadLoad(_NOT_PUBLISHED[name])
        if name not in DATA_SETS:
            raise BadLoad(f"no data set {name[:40]!r}; there are: {', '.join(DATA_SETS)}")


def fetch_data(name: str, out: Path, *, source: str = SOURCE) -> tuple[Path, bool]:
    """The file of data set ``name`` below ``out``, and whether it had to be fetched.

    ``source`` may be a mirror with the same paths. Raises :class:`loadgen.errors.LoadError`.
    """
    check_names([name])
    if not source.startswith(("https://", "http://")):
        raise BadLoad(f"the source must begin with https:// or http://, got {source[:80]!r}")
    file = DATA_SETS[name]
    path = out / file.path
    url = f"{source.rstrip('/')}/{file.host_path}"
    with httpx.Client(follow_redirects=True) as client:
        fetched = download(client, url, path, file.sha256, limit_bytes=file.num_bytes)
    return path, fetched
