"""A real browser for the tests of this folder; they skip where there is none.

Starting it is most of what such a test takes, so one serves a module, on a loop of the module's.
"""

import os
import shutil

import pytest
import pytest_asyncio

from tests.contract.router.conftest import redis_server, redis_url
from tests.contract.router.stack import running_fleet

__all__ = ["redis_server", "redis_url"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser_path():
    """The browser's executable: PBKV_TEST_BROWSER, or one of the usual names."""
    given = os.environ.get("PBKV_TEST_BROWSER")
    found = given or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no Chromium: install one (Debian: chromium) or set PBKV_TEST_BROWSER")
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(browser_path):
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    async with playwright.async_playwright() as driver:
        running = await driver.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield running
        finally:
            await running.close()


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(redis_url):
    async with running_fleet(redis_url) as fleet:
        yield fleet


@pytest_asyncio.fixture(loop_scope="module")
async def engine(fleet):
    """The only replica, named "a"."""
    return await fleet.add("a")
