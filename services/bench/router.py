"""What a router adds to every chunk of a stream, and what it costs.

The same streams go straight to an endpoint with known times and through each router, in turns
within one run, so that whatever else the machine does falls on all alike.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.table import Table

from services.bench.drive import BenchError
from services.bench.router_processes import allow_files, endpoint, listener, router
from services.bench.router_streams import Cadence, run_window

DIRECT, PBKV = "direct", "pbkv"

_SETTLE_S = 0.3
_MOST_STREAMS = 20_000


@dataclass(frozen=True, slots=True)
class RouterBench:
    """What to measure. ``others`` are further routers by name, in front of ``endpoint_port``.

    Raises :class:`BenchError` for what cannot be measured.
    """

    streams: tuple[int, ...]
    turns: int
    seconds: float
    cadence: Cadence
    others: Mapping[str, str] = field(default_factory=dict)
    endpoint_port: int = 0

    def __post_init__(self) -> None:
        for name, url in self.others.items():
            if name in (DIRECT, PBKV):
                raise BenchError(f"--against cannot be called {name}")
            if not url.startswith("http://"):
                raise BenchError(f"--against {name}: {url[:80]!r} does not start with http://")
        if self.others and not self.endpoint_port:
            raise BenchError("--against needs --endpoint-port, which the other router forwards to")


@dataclass(slots=True)
class _Tally:
    """All turns of one router at one number of streams."""

    lateness_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    errors: int = 0
    first_error: str = ""
    cpu_s: float | None = None
    rss_bytes: int | None = None


def parse_streams(text: str) -> tuple[int, ...]:
    """A comma list of numbers of streams. Raises :class:`BenchError`."""
    try:
        streams = tuple(int(word) for word in text.split(","))
    except ValueError:
        streams = ()
    if not streams or not all(1 <= number <= _MOST_STREAMS for number in streams):
        raise BenchError(
            f"--streams {text[:40]!r} is not a comma list of numbers from 1 to {_MOST_STREAMS}"
        )
    if len(set(streams)) < len(streams):
        raise BenchError(f"--streams {text[:40]!r} names a number twice")
    return streams


async def run_router_bench(
    setup: RouterBench, log: Callable[[str], None], add: Callable[[dict[str, Any]], None]
) -> None:
    """Measure, and ``add`` the rows of each number of streams. Raises :class:`BenchError`."""
    allow_files(max(setup.streams))
    with _running(setup) as urls:
        for streams in setup.streams:
            tallies = {name: _Tally() for name in urls}
            for turn in range(setup.turns):
                # Who is first changes, so that a drift of the machine is nobody's.
                for name in _rotated(list(urls), turn):
                    await _take_turn(setup, streams, urls[name], tallies[name])
                    late_ms = 1000 * float(np.median(tallies[name].lateness_s))
                    log(
                        f"{streams} streams, turn {turn + 1}/{setup.turns}, {name}: "
                        f"median lateness {late_ms:.2f} ms"
                    )
            for name in urls:
                add(_row(name, streams, tallies[name], tallies[DIRECT]))


@contextmanager
def _running(setup: RouterBench) -> Iterator[dict[str, str]]:
    """Where each target listens, by name."""
    with (
        tempfile.TemporaryDirectory(prefix="pbkv-bench-") as folder,
        endpoint(setup.cadence, setup.endpoint_port) as direct,
        router(direct, max(setup.streams), Path(folder)) as ours,
    ):
        yield {DIRECT: direct, PBKV: ours, **setup.others}


async def _take_turn(setup: RouterBench, streams: int, url: str, tally: _Tally) -> None:
    process = listener(url)

    def cpu_s() -> float | None:
        if process is None:
            return None
        try:
            times = process.cpu_times()
        except psutil.Error:
            return None
        return float(times.user + times.system)

    window, spent_s = await run_window(url, streams, setup.cadence, setup.seconds, cpu_s)
    tally.lateness_s += window.lateness_s
    tally.seconds += setup.seconds
    tally.errors += window.errors
    tally.first_error = tally.first_error or window.first_error
    if spent_s is not None and process is not None:
        tally.cpu_s = (tally.cpu_s or 0.0) + spent_s
        tally.rss_bytes = max(tally.rss_bytes or 0, process.memory_info().rss)
    # Until the connections of this turn are gone.
    await asyncio.sleep(_SETTLE_S)


def _row(name: str, streams: int, tally: _Tally, direct: _Tally) -> dict[str, Any]:
    def late_ms(of: _Tally, share: float) -> float:
        return 1000 * float(np.quantile(of.lateness_s, share))

    is_router = name != DIRECT
    chunks = len(tally.lateness_s)
    cpu_ms = None
    if is_router and tally.cpu_s is not None:
        cpu_ms = 1000 * tally.cpu_s / (chunks / 1000)
    rss_mb = None
    if is_router and tally.rss_bytes is not None:
        rss_mb = tally.rss_bytes / 1e6
    return {
        "router": name,
        "streams": streams,
        "added_p50_ms": late_ms(tally, 0.5) - late_ms(direct, 0.5),
        "added_p99_ms": late_ms(tally, 0.99) - late_ms(direct, 0.99),
        "chunks_per_s": chunks / tally.seconds,
        "cpu_ms_per_1000_chunks": cpu_ms,
        "rss_mb": rss_mb,
        "late_p50_ms": late_ms(tally, 0.5),
        "late_p99_ms": late_ms(tally, 0.99),
        "chunks": chunks,
        "errors": tally.errors,
        "first_error": tally.first_error,
    }


def _rotated(names: list[str], turn: int) -> list[str]:
    first = turn % len(names)
    return names[first:] + names[:first]


def router_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows for people."""
    table = Table(title="what a router adds to a chunk, beside the same streams without it")
    columns = {
        "router": "",
        "streams": "d",
        "added_p50_ms": ".2f",
        "added_p99_ms": ".2f",
        "chunks_per_s": ",.0f",
        "cpu_ms_per_1000_chunks": ".1f",
        "rss_mb": ".0f",
        "late_p50_ms": ".2f",
        "late_p99_ms": ".2f",
        "errors": "d",
    }
    for name in columns:
        table.add_column(name, justify="left" if name == "router" else "right")
    for row in rows:
        table.add_row(
            *("-" if row[name] is None else format(row[name], how) for name, how in columns.items())
        )
    return table


def check_pace(gap_ms: float, seconds: float) -> None:
    """Raises :class:`BenchError` where a window would see hardly a chunk."""
    if not (math.isfinite(gap_ms) and math.isfinite(seconds)):
        raise BenchError("--gap-ms and --seconds must be finite numbers")
    if 1000 * seconds < 3 * gap_ms:
        raise BenchError("--seconds must be at least three times --gap-ms")
