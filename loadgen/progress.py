"""One live line while a run lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadgen.tally import Tally

_EVERY_S = 0.5


def live_progress(
    total: int, console: Console
) -> Callable[[Tally], AbstractAsyncContextManager[None]]:
    """Shows workflows, calls a second, hit rate and errors; nothing where no one watches."""

    @asynccontextmanager
    async def watch(tally: Tally) -> AsyncIterator[None]:
        columns = (
            TextColumn("workflows"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(_line(tally, 0.0), total=total)

            async def update() -> None:
                calls = 0
                while True:
                    await asyncio.sleep(_EVERY_S)
                    rate, calls = (tally.calls - calls) / _EVERY_S, tally.calls
                    done = tally.finished + tally.failed
                    progress.update(task, completed=done, description=_line(tally, rate))

            updating = asyncio.create_task(update())
            try:
                yield
            finally:
                updating.cancel()
                with suppress(asyncio.CancelledError):
                    await updating

    return watch


def _line(tally: Tally, calls_per_s: float) -> str:
    hit = f"hit {tally.cached_tokens / tally.prompt_tokens:.1%}" if tally.prompt_tokens else "hit -"
    errors = ", ".join(f"{count} {kind}" for kind, count in tally.errors.most_common(3))
    return f"{tally.running} running, {calls_per_s:.1f} calls/s, {hit}" + (
        f", [red]{errors}[/red]" if errors else ""
    )
