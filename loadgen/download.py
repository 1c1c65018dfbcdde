"""Fetches one pinned file: whole and with the right hash, or not at all.

What arrives goes to ``NAME.part`` beside the file, which a later call continues where it was cut;
the file itself appears by a rename, after its hash was found right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from time import sleep

import httpx

from loadgen.errors import DownloadFailed

_TRIES = 3
_TIMEOUT_S = 30.0
_PARTIAL, _BEYOND_THE_END = 206, 416


def has_hash(path: Path, sha256: str) -> bool:
    """Whether ``path`` is a file of that content."""
    if not path.is_file():
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == sha256


def download(
    client: httpx.Client,
    url: str,
    path: Path,
    sha256: str,
    *,
    limit_bytes: int,
    pause: Callable[[float], None] = sleep,
) -> bool:
    """Bring ``url`` to ``path``; False if it was there already.

    A transfer that breaks off is continued, up to three times. Raises :class:`DownloadFailed`,
    after which ``path`` is as it was, and OSError where nothing can be written.
    """
    if has_hash(path, sha256):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for attempt in range(1, _TRIES + 1):
        try:
            _fetch(client, url, part, limit_bytes)
            break
        except httpx.TransportError as problem:
            if attempt == _TRIES:
                said = str(problem) or type(problem).__name__
                raise DownloadFailed(f"{url}: {said[:160]}; the same command continues") from None
            pause(2.0 ** (attempt - 1))
        except (httpx.RequestError, httpx.InvalidURL) as problem:
            raise DownloadFailed(f"{url[:200]}: {problem}"[:300]) from None
    if not has_hash(part, sha256):
        # Kept, it would be continued, and be wrong again.
        part.unlink()
        raise DownloadFailed(f"{url} is not the pinned file: its SHA-256 differs")
    part.replace(path)
    return True


def _fetch(client: httpx.Client, url: str, part: Path, limit_bytes: int) -> None:
    there = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={there}-"} if there else {})
    with client.stream("GET", url, headers=headers, timeout=_TIMEOUT_S) as answer:
        if answer.status_code == _BEYOND_THE_END:
            return
        if answer.status_code != _PARTIAL:
            there = 0
        if not answer.is_success:
            raise DownloadFailed(f"{url} answered {answer.status_code}")
        with part.open("ab" if there else "wb") as out:
            for chunk in answer.iter_raw():
                there += len(chunk)
                if there > limit_bytes:
                    raise DownloadFailed(f"{url} is longer than the {limit_bytes:,} bytes expected")
                out.write(chunk)
