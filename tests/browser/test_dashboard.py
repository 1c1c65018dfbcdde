"""The dashboard in a real browser: what it shows, and what it lets no one do."""

import time
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from tests.contract.router.stack import (
    answers,
    end_process,
    eventually,
    router_process,
    running_router,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTILE = "<img src=x onerror=document.title='owned'>"
HOSTILE_AGENT = "</script><script>document.title='owned'</script>"
KEYS = {"key-of-one": "one", "key-of-two": "two"}
WAIT_MS = 60_000


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(browser):
    """Opens a dashboard; the page's ``problems`` are what its console and errors said."""
    pages = []

    async def opened(url, **options):
        page = await browser.new_page(**options)
        pages.append(page)
        page.set_default_timeout(WAIT_MS)
        page.problems = []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        await page.goto(f"{url}/dashboard")
        return page

    yield opened
    for page in pages:
        await page.close()


@asynccontextmanager
async def router_with(redis_url, **settings):
    async with running_router(redis_url, **settings) as router:
        await eventually(router.serving.directory.ready)
        yield router


async def fill(fleet, count, tenant="default"):
    """Workflows as routers write them, without their calls."""
    now = f"{time.time():.6f}"
    async with fleet.client.pipeline(transaction=False) as pipe:
        for i in range(count):
            fields = {"replica": "a", "state": "active", "agent": "Coder", "agents": '["Coder"]'}
            fields |= {"step": 3, "prompt_tokens": 1000, "cached_tokens": 250}
            fields |= {"created_at": now, "last_seen": now}
            pipe.hset(f"pbkv:workflow:{tenant}:bulk-{i:04d}", mapping=fields)
        await pipe.execute()


def rows(page, table):
    return page.locator(f"#{table} tr:not(.empty)")


async def text(page, selector):
    return await page.locator(selector).inner_text()


async def refreshed(page):
    """Have it ask now, not at its next turn."""
    await page.click("#pause")
    await page.click("#pause")


async def shows(page, selector, part):
    """Wait until the element holds the text."""
    await page.locator(selector).filter(has_text=part).wait_for()


async def test_what_it_shows_and_names_that_are_markup(redis_url, fleet, engine, open_page):
    await fleet.set(
        "a",
        kv_tokens_active=600,
        kv_tokens_retired=150,
        hit_rate=0.75,
        queued_requests=4,
        running_requests=2,
        forecast_accuracy=0.625,
        updated_at=time.time(),
    )
    engine.faults.cached_tokens = 10
    async with router_with(redis_url) as router:
        await router.chat(HOSTILE, headers={"X-Agent-Name": HOSTILE_AGENT})
        page = await open_page(router.url)
        await rows(page, "workflows").first.wait_for()
        workflow = await rows(page, "workflows").first.inner_text()
        for part in (HOSTILE, HOSTILE_AGENT, "active", "90.9 %"):
            assert part in workflow
        replica = await rows(page, "replicas").first.inner_text()
        for part in ("ready", "750 of 1K", "75.0 %", "2 / 4", "62.5 %", engine.url):
            assert part in replica
        bar = page.locator("#replicas .bar")
        assert await bar.get_attribute("aria-label") == "600 active, 150 retired of 1,000 tokens"
        width = await bar.evaluate("bar => bar.firstChild.offsetWidth / bar.offsetWidth")
        assert width == pytest.approx(0.6, abs=0.02)
        assert await text(page, "#status") == "1 replica is ready"
        # Nothing ran, nothing was refused by the policy, nothing was fetched from elsewhere.
        assert await page.title() == "PBKV"
        assert await page.locator("#workflows img, #workflows script").count() == 0
        assert page.problems == []


async def test_the_policy_stops_what_gets_past_the_escaping(redis_url, engine, open_page):
    async with router_with(redis_url) as router:
        page = await open_page(router.url)
        await rows(page, "replicas").first.wait_for()
        ran = await page.evaluate(
            """() => {
                const script = document.createElement('script');
                try { script.text = "document.title = 'owned'"; document.body.append(script); }
                catch (problem) { return problem.name; }
                return document.title;
            }"""
        )
        assert ran in ("TypeError", "PBKV")
        assert await page.title() == "PBKV"
        left = await page.evaluate("fetch('http://127.0.0.1:9/').catch(e => e.name)")
        assert left == "TypeError"
        assert any("Content Security Policy" in problem for problem in page.problems)


async def test_two_thousand_workflows(redis_url, fleet, engine, open_page):
    await fill(fleet, 2000)
    async with router_with(redis_url) as router:
        page = await open_page(router.url)
        await shows(page, "#workflows-count", "latest 50 of 2,000")
        assert await rows(page, "workflows").count() == 50
        await page.select_option("#limit", "1000")
        await shows(page, "#workflows-count", "latest 1,000 of 2,000")
        assert await rows(page, "workflows").count() == 1000
        await page.fill("#search", "BULK-0777")
        await shows(page, "#workflows-count", "1 that fit")
        assert "bulk-0777" in await rows(page, "workflows").first.inner_text()
        await page.fill("#search", "no such thing")
        await shows(page, "#workflows", "No workflow fits.")
        assert page.problems == []


async def test_no_replica_and_a_router_that_is_gone(redis_url, fleet, engine, open_page):
    await fill(fleet, 1)
    async with router_process(redis_url) as (process, url):
        page = await open_page(url)
        await shows(page, "#status", "1 replica is ready")
        await fleet.remove("a")

        async def unready():
            return not await answers(f"{url}/ready")

        await eventually(unready)
        await refreshed(page)
        await shows(page, "#status", "No replica is registered")
        await shows(page, "#replicas", "No replica is registered.")
        end_process(process)
        await refreshed(page)
        await shows(page, "#status", "The router does not answer. What you see is of")
        # Still there to be read, but plainly not of now.
        assert await rows(page, "workflows").count() == 1
        assert "stale" in (await page.locator("body").get_attribute("class"))


async def test_keys_and_tenants(redis_url, fleet, engine, open_page):
    await fill(fleet, 1, tenant="one")
    async with router_with(redis_url, api_keys=KEYS) as router:
        page = await open_page(router.url)
        await page.locator("#sign-in").wait_for(state="visible")
        assert await page.locator("#content").is_hidden()
        for wrong in ("nobody's", "schlüssel"):
            await page.fill("#key", wrong)
            await page.press("#key", "Enter")
            await shows(page, "#key-problem", "does not know this key")
        await page.fill("#key", "key-of-one")
        await page.press("#key", "Enter")
        await rows(page, "workflows").first.wait_for()
        stored = await page.evaluate("[localStorage.length, document.cookie, location.href]")
        assert stored == [0, "", f"{router.url}/dashboard"]
        # A reload of the tab keeps the key, signing out does not, and takes the rows along.
        await page.reload()
        await rows(page, "workflows").first.wait_for()
        await page.click("#forget")
        await page.locator("#sign-in").wait_for(state="visible")
        assert await rows(page, "workflows").count() == 0
        assert await page.evaluate("sessionStorage.length") == 0
        await page.fill("#key", "key-of-two")
        await page.press("#key", "Enter")
        await shows(page, "#workflows", "No workflow is known.")


async def test_a_narrow_window_light_and_dark(redis_url, fleet, engine, open_page):
    await fill(fleet, 3)
    async with router_with(redis_url) as router:
        page = await open_page(router.url, viewport={"width": 360, "height": 800})
        await rows(page, "workflows").first.wait_for()
        # Tables scroll within themselves, the page does not sideways.
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360
        grounds = set()
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            grounds.add(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert len(grounds) == 2
