"""What looks at an installed stack, ``helm test`` and ``pbkv doctor``, against a real router."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.doctor.finding import Verdict
from services.doctor.stack import check_router
from tests.contract.router.stack import (
    ROOT,
    Fleet,
    eventually,
    running_fleet,
    running_router,
)
from tests.fakes.engine import MODEL

HOOK = ROOT / "charts/pbkv/files/chat.py"
KEYS = {"api_keys": {"k1": "team"}}


@pytest.fixture
async def fleet(redis_url: str) -> AsyncIterator[Fleet]:
    async with running_fleet(redis_url) as running:
        yield running


async def hook(hook_path: Path, url: str, key: str = "") -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(hook_path),
        url,
        "10",
        MODEL,
        env={"PBKV_API_KEY": key, "no_proxy": "*"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_the_hook_passes_on_a_stack_that_serves(redis_url: str, fleet: Fleet) -> None:
    await fleet.add("a")
    async with running_router(redis_url, **KEYS) as router:
        status, output = await hook(HOOK, router.url, "k1")
        assert (status, output.endswith("tokens from a\n")) == (0, True), output
        status, output = await hook(HOOK, router.url)
        assert status == 1
        assert "wants an API key" in output


async def test_the_doctor_reads_what_a_real_router_says(redis_url: str, fleet: Fleet) -> None:
    async with running_router(redis_url, **KEYS) as router:
        findings = await asyncio.to_thread(check_router, router.url, "k1")
        assert findings[-1].verdict is Verdict.FAILED
        assert findings[-1].detail == "none is ready (none registered)"
        await fleet.add("a")
        await eventually(router.serving.directory.ready)  # type: ignore[attr-defined]
        findings = await asyncio.to_thread(check_router, router.url, "k1")
        assert [f.verdict for f in findings] == [Verdict.OK] * 3
        findings = await asyncio.to_thread(check_router, router.url)
        assert findings[-1].check == "API key"
