"""Runs the tests of a small repository in a process of its own, with limits and without network
credentials or any other part of the environment."""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_CPU_S = 5
_WALL_S = 20.0
_MEMORY_BYTES = 512 * 1024 * 1024
_FILE_BYTES = 1024 * 1024
_OUTPUT_CHARS = 1200


@dataclass(frozen=True, slots=True)
class TestResult:
    """``output`` is what the tests printed, cut to its end."""

    __test__ = False

    passed: bool
    output: str


async def run_tests(files: Mapping[str, str]) -> TestResult:
    """Write ``files`` into an empty folder and run Python there.

    The process has no environment, 5 s of CPU, 512 MiB of memory and small files; it is killed
    with its group when its time is over. That keeps honest mistakes in; it is no jail for hostile
    code, which belongs into a container.
    """
    with tempfile.TemporaryDirectory(prefix="pbkv-tests-") as folder:
        await asyncio.to_thread(_write, Path(folder), files)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            "unittest",
            cwd=folder,
            env={},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_limit,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), _WALL_S)
        except TimeoutError:
            return TestResult(False, f"the tests did not end within {_WALL_S:.0f} s")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    text = output.decode(errors="replace").replace(folder, ".")
    return TestResult(process.returncode == 0, text[-_OUTPUT_CHARS:])


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
