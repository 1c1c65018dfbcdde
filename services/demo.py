"""The comparison of ``make demo``: the same workflows on two stacks, one after the other.

Each stack is a whole ``pbkv up`` of its own process, with the real engine and a pool that is too
small for all workflows at a time, in the proportion of the paper.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from rich.console import Console

from loadgen.arrivals import Arrivals
from loadgen.measure import LoadPlan, measure
from loadgen.progress import live_progress
from loadgen.records import WorkflowState
from loadgen.results import write_results
from loadgen.run import Pace
from loadgen.source import Source, load_source
from loadgen.target import Target
from services.bench.engines import whole_pages
from services.bench.report import environment
from services.bench.workload_defaults import defaults_of
from services.ports import free_port

_READY_S = 300.0
_STOP_S = 60.0
_POLL_S = 0.5
# An engine with no room for the longest prompt refuses it, and with little more never begins it.
# Prompts are a little longer than scripted: roles and tokenizers add to them.
_ROOM_FOR_ONE = 2.0

Say = Callable[[str], None]


class DemoFailed(Exception):
    """A stack did not come up, or answered nothing."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One side: its name and what ``pbkv up`` is told."""

    name: str
    options: tuple[str, ...]
    description: str


# LRU as engines are run today; ours as `pbkv up` runs it, with its queue order.
CONTENDERS = (
    Contender(
        "lru",
        ("--policy", "lru", "--queue", "fcfs"),
        "an engine as it is run without knowledge of workflows. A full cache drops what was least "
        "recently used, and calls are served first come, first served",
    ),
    Contender(
        "pbkv",
        ("--policy", "pbkv"),
        "the stack as pbkv up starts it. The cache knows which workflows are over, which agents "
        "read what, and what is likely to be read next. Old workflows are served before new ones: "
        "first calls wait longer, and whole workflows are done sooner",
    ),
)


@dataclass(frozen=True, slots=True)
class Demo:
    """What is compared, and in which folder the results and logs go."""

    workload: str
    workflows: int
    concurrency: int
    model: str
    folder: Path
    seed: int = 1

    async def run(self, say: Say) -> list[Path]:
        """The results file of each contender, in order. Raises :class:`DemoFailed`."""
        defaults = defaults_of(self.workload)
        source = load_source(self.workload, self.workflows, seed=self.seed, scale=defaults.scale)
        pool = self._pool(source)
        files = []
        for contender in CONTENDERS:
            (self.folder / contender.name).mkdir(parents=True, exist_ok=True)
        for contender in CONTENDERS:
            say(f"{contender.name}: starting its stack, a KV cache of {pool} tokens")
            options = ("--kv-tokens", str(pool), *contender.options)
            async with _stack(self.model, options, self.folder / contender.name) as url:
                say(f"{contender.name}: {self.workflows} workflows of {self.workload}")
                files.append(await self._measured(contender, source, url))
        return files

    def _pool(self, source: Source) -> int:
        """KV tokens: too few for all workflows at a time, and enough for each call by itself."""
        defaults = defaults_of(self.workload)
        longest = max(
            prompt + call.output_tokens
            for script in source.scripts
            for prompt, call in zip(script.prompt_tokens(), script.calls, strict=True)
        )
        return max(
            defaults.kv_tokens(self.concurrency, defaults.scale),
            whole_pages(_ROOM_FOR_ONE * longest),
        )

    async def _measured(self, contender: Contender, source: Source, url: str) -> Path:
        plan = LoadPlan(
            source=source,
            target=Target.of(url),
            pace=Pace(self.concurrency),
            arrivals=Arrivals(),
            prefix=f"demo-{uuid.uuid4().hex[:8]}",
        )
        watch = live_progress(len(source.scripts), Console(stderr=True))
        measured = await measure(plan, watch=watch)
        if measured.records.interrupted:
            raise DemoFailed("stopped; a comparison needs both runs whole")
        if all(w.state is not WorkflowState.FINISHED for w in measured.records.workflows):
            said = next((c.detail for c in measured.records.calls if c.detail), "no reason given")
            where = self.folder / contender.name
            raise DemoFailed(f"{contender.name}: no workflow finished ({said}); see {where}")
        path = self.folder / f"{contender.name}.json"
        about: dict[str, Any] = environment(
            workload=self.workload,
            name=contender.name,
            description=contender.description,
            model=measured.model,
            url=url,
            seed=self.seed,
            pace=plan.describe(),
        )
        write_results(
            path,
            measured.records,
            command=sys.argv[1:],
            environment=about,
            notes=measured.notes,
        )
        return path


@asynccontextmanager
async def _stack(model: str, options: tuple[str, ...], folder: Path) -> AsyncIterator[str]:
    """One stack, ready; it is gone when the block is left."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["up", "--replicas", "1", "--port", str(port), "--model", model]
    words += ["--state-dir", str(folder / "stack"), *options]
    with (folder / "up.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "services.cli.main",
            *words,
            stdout=log,
            stderr=log,
            # A Ctrl-C is for this process, which then ends the stack.
            start_new_session=True,
        )
    try:
        await _ready(url, process, folder / "up.log")
        yield url
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _ready(url: str, process: asyncio.subprocess.Process, log: Path) -> None:
    try:
        async with asyncio.timeout(_READY_S), aiohttp.ClientSession() as session:
            while not await _answers(session, f"{url}/ready"):
                if process.returncode is not None:
                    raise DemoFailed(f"the stack ended while it started; see {log}")
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise DemoFailed(f"the stack was not ready after {_READY_S:.0f} s; see {log}") from None


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False
