"""Applications run in the environment of the frameworks, against the router's own stack."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.contract.router.conftest import engine, fleet, redis_server, redis_url, router
from tests.contract.router.stack import ROOT

__all__ = ["application", "engine", "fleet", "redis_server", "redis_url", "router"]

PROGRAMS = Path(__file__).parent / "programs"
PYTHON = ROOT / ".venv-agents" / "bin" / "python"


@pytest.fixture
def application(tmp_path):
    """Runs an unmodified program under ``python -m pbkv.clients``; its exit code."""
    if not PYTHON.exists():
        pytest.skip("the agent frameworks are not installed: make agents")

    async def run(name: str, *words: str, framework: str = "") -> int:
        environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HOME": str(tmp_path),
            "CREWAI_STORAGE_DIR": str(tmp_path / "crew"),
        }
        chosen = ["--framework", framework] if framework else []
        process = await asyncio.create_subprocess_exec(
            str(PYTHON),
            "-m",
            "pbkv.clients",
            *chosen,
            str(PROGRAMS / f"{name}.py"),
            *words,
            cwd=tmp_path,
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), 120)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        print(output.decode()[-4000:])
        return process.returncode

    return run
